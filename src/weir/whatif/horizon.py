"""The end of a what-if run: when nothing but eviction loops goes on, at the horizon, or when too much happens.

Loops end it only when no other pod is about to leave. A copy that never comes to rest at one moment ends it as well, so
that a question always has an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from weir.controllers.devices.taint_eviction import DeviceTaintEviction
from weir.controllers.nodes.taint_eviction import TaintEviction
from weir.forecast.cluster import ForecastCluster
from weir.whatif.changes.change import ChangedCluster
from weir.whatif.eviction_loops import find_eviction_loops
from weir.whatif.forecast import Forecast
from weir.whatif.history import History, PodLife
from weir.whatif.words import title

Tick = Callable[[int, int], None]

#: How far time goes between two looks at what has happened: first often, then less so.
_STEPS: Final = (1.0, 1.0, 3.0, 5.0, 10.0, 10.0, 30.0)
#: What happened in the last so many seconds still goes on.
_RECENTLY: Final = 12.0
#: So long a pod made at the horizon is given to be placed and to start.
_PLACING_SECONDS: Final = 5.0
#: So many writes to pods are waited for, and so many for each pod that is there; and as many in one moment to anything.
MOST_WRITES: Final = 20_000
#: After so many writes to pods, workloads that are known to loop are left alone.
LOOPING_WRITES: Final = 2_000
MOST_WRITES_A_POD: Final = 50


def idle_forecast(said: str, now: datetime, until: float) -> Forecast:
    """Return the forecast of a cluster in which nothing can happen to any pod, as a look to the horizon says it."""
    looked = timedelta(seconds=until)
    rests = until > max(_STEPS)
    return Forecast((said,), (), at=now, looked=looked, settled=rests)


class TooManyWrites(Exception):
    """The copy made more writes than the limit."""


class Horizon:
    """The time that passes in one copy after *now*, when the change is made, at most *until* so many seconds later.

    Loops do not end it before *at_least* so many seconds.
    """

    def __init__(
        self,
        cluster: ChangedCluster,
        history: History,
        now: datetime,
        until: float,
        pods: int,
        workload_of: Callable[[PodLife], str],
        tick: Tick,
        at_least: float = 0.0,
    ) -> None:
        self._at_least = at_least
        self._cluster, self._history, self._workload_of, self._tick = cluster, history, workload_of, tick
        self._now, self._until = now, until
        self._most_writes = MOST_WRITES + MOST_WRITES_A_POD * pods
        self.too_many_writes = False
        self.rests = False  #: whether all was quiet at the horizon
        # the latest time that was looked at, and the store's revision when it began
        self._moment = (cluster.clock.monotonic(), cluster.revision)
        cluster.clock.look = self._look

    def run_bounded(self, act: Callable[[], None]) -> bool:
        """Run *act*; return whether it ended before the limit of writes."""
        try:
            act()
        except TooManyWrites:
            self.too_many_writes = True
            return False
        return True

    def busiest(self, ended: float) -> str:
        """Return the sentence on a copy that was left because too much went on in it."""
        history = self._history
        pods = Counter(self._workload_of(life) for life in history.lives.values() if life.made >= 0.0)
        most = f", most of it with {title(max(pods, key=pods.__getitem__))}" if pods else ""
        return (
            f"More goes on than was waited for ({history.writes:,} writes to pods in {ended:.1f} s{most}): "
            f"what comes later was not looked at"
        )

    def _look(self) -> None:
        """Raise when more goes on than any change that comes to rest makes happen."""
        moment, revision = self._cluster.clock.monotonic(), self._cluster.revision
        if moment != self._moment[0]:
            self._moment = (moment, revision)
        if max(self._history.writes, revision - self._moment[1]) > self._most_writes:
            raise TooManyWrites

    def pass_time(self) -> None:
        """Let time pass until only eviction loops go on, at most to the horizon."""
        history, cluster = self._history, self._cluster
        end, number = self._until, 0
        while (passed := (cluster.now - self._now).total_seconds()) < end:
            before = history.departures
            step = _STEPS[min(number, len(_STEPS) - 1)]
            cluster.advance(min(step, end - passed))
            number += 1
            history.last_seen = (cluster.now - self._now).total_seconds()
            self._tick(int(passed), int(end))
            if (
                history.departures > before
                and self._only_eviction_loops()
                and history.last_seen >= self._at_least
            ):
                return
        if self._has_new_pods(end):
            cluster.advance(_PLACING_SECONDS)
            history.last_seen = (cluster.now - self._now).total_seconds()
        self.rests = history.last_change < end - max(_STEPS)

    def _has_new_pods(self, end: float) -> bool:
        """Return whether pods were made right before the horizon: whether they are placed is not known yet."""
        return any(
            life.left is None
            and life.running is None
            and not life.waits
            and life.made > end - _PLACING_SECONDS
            for life in self._history.lives.values()
        )

    def _only_eviction_loops(self) -> bool:
        """Return whether only eviction loops go on."""
        history = self._history
        history.pair()
        looping = {
            loop.workload
            for loop in find_eviction_loops(history, self._workload_of)
            if "/Job/" not in loop.workload  # a Job gives up some day
        }
        if not looping:
            return False
        if history.writes > LOOPING_WRITES:
            self._suspend(looping)
        recent = history.last_change - _RECENTLY
        for life in history.lives.values():
            latest = max(
                each
                for each in (life.made, life.bound, life.running, life.left, life.gone)
                if each is not None
            )
            if latest > recent and self._workload_of(life) not in looping:
                return False
        return not self._others_are_evicted(looping)

    def due(self) -> dict[str, float]:
        """Return the pods that taints are to evict, and after how many seconds."""
        first: dict[str, float] = {}
        for pod, at in self._evictions():
            seconds = (at - self._now).total_seconds()
            first[pod] = min(seconds, first.get(pod, seconds))
        return first

    def later(self, looping: set[str]) -> list[tuple[str, timedelta]]:
        """Return the pods to be evicted after the time looked at, and when; without those of loops."""
        stays = {
            life.key
            for life in self._history.lives.values()
            if life.left is None and self._workload_of(life) not in looping
        }
        found = {(pod, at) for pod, at in self._evictions() if pod in stays and at > self._cluster.now}
        return sorted(((pod, at - self._now) for pod, at in found), key=lambda each: (each[1], each[0]))

    def _suspend(self, looping: set[str]) -> None:
        """Leave the pods of workloads alone that are known to loop: they would use up the looking ahead."""
        if isinstance(self._cluster, ForecastCluster):
            lives = self._history.lives.values()
            owners = {life.owner_uid for life in lives if self._workload_of(life) in looping} - {""}
            self._history.suspended |= owners
            self._cluster.suspend_evictions(owners)

    def _others_are_evicted(self, looping: set[str]) -> bool:
        """Return whether pods of other workloads are to be evicted before the horizon."""
        horizon = self._now + timedelta(seconds=self._until)
        driven_out = {pod for pod, at in self._evictions() if at <= horizon}
        nodes = self._history.nodes
        return any(
            life.left is None
            and (life.key in driven_out or (life.node != "" and life.node not in nodes))  # left to PodGC
            and self._workload_of(life) not in looping
            for life in self._history.lives.values()
        )

    def _evictions(self) -> Iterator[tuple[str, datetime]]:
        """Yield the pods that taints of nodes or devices will evict, and when."""
        for worker in self._cluster.plane.controllers.workers:
            if isinstance(worker.controller, TaintEviction):
                for key, timer in worker.controller.timers.items():
                    yield f"{key.namespace}/{key.name}", timer.fire_at
            elif isinstance(worker.controller, DeviceTaintEviction):
                for pod, eviction in worker.controller.pending.items():
                    yield f"{pod.namespace}/{pod.name}", eviction.at
