"""The scheduler of a forecast: attempts one after the other, each with all that follows from it at once.

Queue, cycle, preemption and promises are the scheduler's own (weir.scheduler.schedule_one); a binding changes the pod
before the next attempt begins.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from weir.client.cache import Cache, Informer
from weir.devices.tracker import Problem
from weir.forecast.client import ObjectsClient
from weir.forecast.objects import Objects, key_of
from weir.forecast.timeline import Timeline
from weir.gates import Gates
from weir.objects.core import Pod, View, read
from weir.objects.kind import Kind
from weir.objects.kinds import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS
from weir.observe.logs import Log
from weir.scheduler.cluster_state import ClusterState, Namespace
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.decision_log import DecisionLog
from weir.scheduler.framework import Diagnosis
from weir.scheduler.metrics import SchedulerMetrics
from weir.scheduler.pod_class import SeatedPods
from weir.scheduler.prebind import PreBind
from weir.scheduler.preemption_eviction import Budget
from weir.scheduler.queue import QueuedPod
from weir.scheduler.schedule_one import ScheduleOne
from weir.scheduler.status_reporter import StatusReporter
from weir.taints.expression import Expressions

Document = dict[str, Any]
_PLENTY: Final = 2**30  # attempts that wait for their promises at the same time


class ForecastScheduler(ScheduleOne):
    """One scheduler over the objects of a forecast."""

    def __init__(
        self,
        timeline: Timeline,
        objects: Objects,
        client: ObjectsClient,
        shared: Mapping[Kind, Cache[Any]],
        gates: Gates,
        seed: int,
        seats: Mapping[str, SeatedPods],
    ) -> None:
        self.client, self.gates, self.clock = client, gates, timeline
        self._timeline = timeline
        self.metrics = SchedulerMetrics()
        self._log = Log("weir.forecast")
        self.expressions = expressions = Expressions()
        self._decision_log = DecisionLog(self._log, timeline, expressions)
        self._rng = random.Random(seed)
        self.state = ClusterState(
            client, timeline, gates, SchedulerConfig(), self.metrics, seed, self._ignore, expressions
        )
        self._decisions, self._leadership = 0, None
        self._binding, self._room = set(), asyncio.Semaphore(_PLENTY)
        self._writing = client
        self._reporter = StatusReporter(client, timeline, {}, self._log)
        self._prebind = PreBind(client, timeline, self._room, self._reporter, self.metrics)
        self.informers: dict[str, Informer[Any]] = {
            "nodes": Informer(client, NODES, timeline, bytes),
            "pods": Informer(client, PODS, timeline, bytes),
            "namespaces": Informer(client, NAMESPACES, timeline, bytes),
            "budgets": Informer(client, POD_DISRUPTION_BUDGETS, timeline, bytes),
            **self.state.informers.informers,
        }
        self._awake = self._ticking = False
        for node, pods in seats.items():
            self.state.table.expect_pods(node, pods)
        own: dict[Kind, type[View]] = {NAMESPACES: Namespace, POD_DISRUPTION_BUDGETS: Budget}
        for informer in self.informers.values():
            assert isinstance(informer.kind, Kind)
            if informer.kind in shared:
                informer.cache = shared[informer.kind]
            else:
                view = own.get(informer.kind) or self.state.informers.views[informer.kind.kind]
                self._follow(objects, informer, view)
        self.state.informers.listen()
        self.informers["namespaces"].cache.listen(self.state.namespace_changed)
        # Pods first: they are counted on their nodes together, when these come.
        self.informers["pods"].cache.listen(self._then_look(self.state.pod_changed))
        self.informers["nodes"].cache.listen(self._then_look(self.state.node_changed))

    def _ignore(self, problem: Problem) -> None:
        """A rule that cannot be applied says so where rules are checked."""

    def _then_look(self, changed: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """Return a listener that also gives waiting pods their turn."""

        def listener(old: Any, new: Any) -> None:
            changed(old, new)
            self.wake()

        return listener

    def _follow(self, objects: Objects, informer: Informer[Any], view: type[View]) -> None:
        cache: Cache[Any] = informer.cache
        assert isinstance(informer.kind, Kind)

        def changed(old: Document | None, new: Document | None) -> None:
            if new is not None:
                cache.put(key_of(new), read(view, new))
            elif old is not None:
                cache.discard(key_of(old))
            self.wake()

        for document in objects.documents(informer.kind):
            changed(None, document)
        objects.listen(informer.kind, changed)

    def wake(self) -> None:
        """Give waiting pods their turn soon, if there are any."""
        if not self._awake and self.state.work.is_set():
            self._awake = True
            self._timeline.soon(self._turn)

    def _turn(self) -> None:
        """Try every pod that is ready."""
        while (item := self.state.queue.pop(self.clock.monotonic())) is not None:
            self._attempt(item)
        self._awake = False
        self.state.work.clear()
        self._start_ticking()

    def _start_ticking(self) -> None:
        """Let time wake pods, every second while some wait for it."""
        if not self._ticking and not self.state.queue.idle:
            self._ticking = True
            self._timeline.after(1.0 - self.clock.monotonic() % 1.0, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if self.state.queue.tick(self.clock.monotonic()):
            self.state.work.set()
        self.wake()
        self._start_ticking()

    # ── what differs from a scheduler in a cluster ───────────────────────────────────────────────

    def _start(self, work: Any) -> None:
        self._timeline.run(self._then_wake(work))

    async def _then_wake(self, work: Any) -> None:
        try:
            await work
        finally:
            self._room.release()
            self.wake()

    def _note_decision(self, engine: Engine, pod: Pod, answer: Placement | Diagnosis, seconds: float) -> None:
        """Count nothing."""

    def _note_binding(self, item: QueuedPod, node: str, started: float) -> None:
        """Count and report nothing."""

    def _note_point(self, point: str, pod: Pod, began: float) -> None:
        """Count nothing."""
