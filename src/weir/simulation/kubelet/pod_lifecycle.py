"""Pod lifecycle on a node as a pure state machine.

Spec: KEP-753 (sidecar containers), core/v1 PodSpec. Sandbox, init containers in order with sidecars staying, regular
containers, and termination: preStop, SIGTERM, SIGKILL after the grace period, sidecars last in reverse order.
`advance` moves to a time, `due` gives the next change; the same calls give the same result under virtual and real
time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from weir.simulation.kubelet.behaviour import Behaviour
from weir.simulation.kubelet.container_lifecycle import (
    DEFAULT_GRACE_SECONDS,
    FIRST_BACK_OFF_SECONDS,
    INITIALIZING,
    KILLED,
    Container,
    ContainerLifecycle,
    Ending,
    Occurrence,
    Printing,
    Role,
    State,
    containers_of,
    read_ended,
    read_time,
)

Document = dict[str, Any]
LEAST_GRACE_SECONDS: Final = 2.0  # what is left for SIGTERM after a preStop hook that took all of it


@dataclass
class PodLife(ContainerLifecycle):
    """One pod on its node, from the moment it was admitted."""

    pod: Document
    behaviour: Behaviour
    started_at: float  #: startTime
    sandbox_at: float  #: when its sandbox is ready
    containers: list[Container] = field(default_factory=list)
    sandbox: bool = False
    ending: Ending | None = None
    kill_at: float = math.inf  #: when the grace period is over
    over: bool = False  #: no container runs, and none will
    restored: bool = False  #: another process has played it before
    generation: int | None = None  #: of the version of the pod that was seen last
    occurrences: list[Occurrence] = field(default_factory=list)
    printed: list[Printing] = field(default_factory=list)  #: of containers that were just started

    # ── beginning ────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def begin(cls, pod: Document, behaviour: Behaviour, now: float) -> PodLife:
        """Return the life of a pod that was just admitted."""
        life = cls(pod, behaviour, now, now + behaviour.start_seconds())
        life.containers = [Container(spec, role) for spec, role in containers_of(pod)]
        life.generation = pod["metadata"].get("generation")
        if pod["spec"].get("initContainers"):
            for each in life.containers:
                each.reason = INITIALIZING
        return life

    @classmethod
    def restore(cls, pod: Document, behaviour: Behaviour, now: float) -> PodLife:
        """Return the life of a pod that another process has played, as far as its status says."""
        status = pod.get("status") or {}
        life = cls.begin(pod, behaviour, read_time(status.get("startTime"), now))
        life.restored = True
        life.over = status.get("phase") in ("Succeeded", "Failed")
        life.sandbox = bool(status.get("podIP"))
        life.sandbox_at = min(life.sandbox_at, now)
        known = {
            each["name"]: each
            for part in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
            for each in status.get(part) or ()
        }
        for each in life.containers:
            if each.name in known:
                life._restore(each, known[each.name], now)
        return life

    def _restore(self, container: Container, status: Document, now: float) -> None:
        state = status.get("state") or {}
        restarts = int(status.get("restartCount") or 0)
        if (last := (status.get("lastState") or {}).get("terminated")) is not None:
            container.last = read_ended(last, now)
        if (running := state.get("running")) is not None:
            container.starts = restarts
            self._start(container, read_time(running.get("startedAt"), now))
        elif (terminated := state.get("terminated")) is not None:
            container.starts = restarts + 1
            container.state, container.ended = State.TERMINATED, read_ended(terminated, now)
            if not self.over and self._restarts(container, container.ended.exit_code):
                container.at = now
        elif container.last is not None:
            container.starts = restarts + 1
            container.at, container.back_off = now, FIRST_BACK_OFF_SECONDS

    def refresh(self, pod: Document) -> None:
        """Take in another version of the pod: ephemeral containers come, images change, and nothing else does."""
        self.pod = pod
        if not pod["metadata"].get(
            "deletionTimestamp"
        ):  # the deletion is reported when the pod has terminated
            self.generation = pod["metadata"].get("generation")
        images = {spec["name"]: spec for spec, _ in containers_of(pod)}
        for each in self.containers:
            new = images.get(each.name)
            if new is not None and new.get("image") != each.spec.get("image"):
                each.spec, each.renewed = new, True
        if ephemeral := pod["spec"].get("ephemeralContainers"):
            known = {each.name for each in self.containers}
            self.containers += [
                Container(each, Role.EPHEMERAL) for each in ephemeral if each["name"] not in known
            ]

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def due(self) -> float:
        """Return when something happens next by itself."""
        if self.over:
            return math.inf
        if self.ending is not None:
            stopping = [each.at for each in self.containers if each.state is State.RUNNING and each.stopping]
            return min(stopping, default=0.0)  # none: it is over, or it is a sidecar's turn
        if not self.sandbox:
            return min(self.sandbox_at, self.deadline)
        if any(each.renewed and each.role is not Role.INIT for each in self._turn()):
            return 0.0
        return min(min((each.wakes_at for each in self._turn()), default=math.inf), self.deadline)

    @property
    def deadline(self) -> float:
        """When activeDeadlineSeconds are over."""
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        return math.inf if seconds is None else self.started_at + float(seconds)

    def starts_something(self, now: float) -> bool:
        """Return whether a container may be started at *now*."""
        if self.over or self.ending is not None or now < self.sandbox_at:
            return False
        return any(
            now >= each.at or (each.state is State.WAITING and each.at == math.inf)
            for each in self.containers
            if each.state is not State.RUNNING
        )

    def advance(self, now: float) -> bool:
        """Let happen what is due at *now*; return whether anything did."""
        moved = False
        while not self.over and self._step(now):
            moved = True
        return moved

    def _step(self, now: float) -> bool:
        if self.ending is not None:
            return self._step_to_the_end(now)
        if now >= self.deadline:
            message = "Pod was active on the node longer than the specified deadline"
            self._record("Normal", "DeadlineExceeded", message)
            self.end(now, Ending("DeadlineExceeded", message))
            return True
        if not self.sandbox:
            if now < self.sandbox_at:
                return False
            self.sandbox = True
            return True
        return any(self._step_of(each, now) for each in self._turn()) or self._finished(now)

    def _turn(self) -> Iterator[Container]:
        """Yield the containers that something may happen to: those behind an init container wait for it."""
        initialized = True
        for each in self.containers:
            if each.role in (Role.INIT, Role.SIDECAR):
                if initialized or each.starts:
                    yield each
                initialized = initialized and each.done
            elif initialized or each.role is Role.EPHEMERAL:
                yield each

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def _finished(self, now: float) -> bool:
        """Begin the end of a pod whose containers have all ended for good, or that cannot be initialized."""
        final = [each for each in self.containers if each.state is State.TERMINATED and each.at == math.inf]
        if any(each.role is Role.INIT and not each.done for each in final):
            self.end(now, Ending())
            return True
        ordinary = [each for each in self.containers if each.ordinary]
        if all(each in final for each in ordinary):
            self.end(now, Ending())
            return True
        return False

    def end(self, now: float, ending: Ending, grace_seconds: float | None = None) -> None:
        """Stop every container: SIGTERM now, after preStop, and SIGKILL when the grace period is over.

        A life that is ending already can only end sooner.
        """
        if grace_seconds is None:
            grace = self.pod["spec"].get("terminationGracePeriodSeconds")
            grace_seconds = float(DEFAULT_GRACE_SECONDS if grace is None else grace)
        if self.ending is not None:
            self.kill_at = min(self.kill_at, now + grace_seconds)
            for each in self.containers:
                if each.state is State.RUNNING and each.stopping and each.at > self.kill_at:
                    each.at, each.exit_code = self.kill_at, KILLED
            return
        self.ending, self.kill_at = ending, now + grace_seconds
        for each in self.containers:
            if each.state is State.RUNNING and each.role is not Role.SIDECAR:
                self._signal(each, now)

    def _signal(self, container: Container, now: float) -> None:
        self._record("Normal", "Killing", f"Stopping container {container.name}")
        ordinary = container.ordinary
        hook = self.behaviour.pre_stop_seconds(container.spec, ordinary=ordinary)
        stop = self.behaviour.stop_seconds(container.name, ordinary=ordinary)
        last = self.kill_at
        if (
            hook and now + hook >= last and last > now
        ):  # it took all of the grace period: a little more is given
            hook, last = last - now, last + LEAST_GRACE_SECONDS
        container.stopping = True
        by_itself = now + hook + stop
        if container.at <= min(by_itself, last):
            return  # it ends before that, as it would have
        if by_itself <= last:
            container.at = by_itself
            container.exit_code = container.stop_exit_code
        else:
            container.at, container.exit_code = max(last, now), KILLED

    def _step_to_the_end(self, now: float) -> bool:
        running = [each for each in self.containers if each.state is State.RUNNING]
        for each in running:
            if each.stopping and each.at <= now:
                self._stop(each, each.exit_code, now)
                return True
        if not running:
            self.over = True
            return True
        if all(each.role is Role.SIDECAR for each in running) and not any(each.stopping for each in running):
            self._signal(running[-1], now)  # the one that was started last ends first
            return True
        return False

    def take_printed(self) -> list[Printing]:
        """Return what the containers print that were started since the last call."""
        taken, self.printed = self.printed, []
        return taken

    def take_occurrences(self) -> list[Occurrence]:
        """Return what happened since the last call."""
        taken, self.occurrences = self.occurrences, []
        return taken
