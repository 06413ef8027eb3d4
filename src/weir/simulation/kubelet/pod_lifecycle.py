"""What happens to the containers of a pod on its node, and when? A pod's life as a state machine, without effects.

Sandbox, init containers one after the other with sidecars staying, ordinary containers, restarts with back-off, and
the end: SIGTERM after preStop, SIGKILL when the grace period is over, sidecars last and in reverse order. `advance`
brings a life up to a time, `due` says when something happens next by itself; the same calls at the same times give the
same life, under virtual and real time alike.
Spec: KEP-753 (sidecar containers), KEP-5307 and KEP-5532 (restart rules), core/v1 PodSpec. Times are a kubelet's: a
container that ended is started again at once, then after 10 s, doubling to 5 min, anew after 10 min of running well.
Not here: one container (.container), what the status says about it (.pod_status), how containers behave (.behaviour),
the effects (.run), whether the pod may start at all (.admit).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from weir.simulation.kubelet.behaviour import Behaviour
from weir.simulation.kubelet.container import (
    CREATING,
    INITIALIZING,
    Container,
    Ended,
    Role,
    State,
    containers_of,
    read_ended,
    read_time,
    restart_rule,
)
from weir.simulation.kubelet.programs.images import reference
from weir.simulation.kubelet.programs.play import Play

Document = dict[str, Any]
FIRST_BACK_OFF_SECONDS: Final = 10.0
LONGEST_BACK_OFF_SECONDS: Final = 300.0
WELL_AFTER_SECONDS: Final = 600.0  # a container that ran so long starts again without back-off
NOTICE_SECONDS: Final = 1.0  # until the kubelet sees that a container ended and starts it again
LEAST_GRACE_SECONDS: Final = 2.0  # what is left for SIGTERM after a preStop hook that took all of it
KILLED: Final = 137  # 128 + SIGKILL
DEFAULT_GRACE_SECONDS: Final = 30
LOOK_AGAIN_SECONDS: Final = 2.0  # for a ConfigMap or Secret that was missing
UNCONFIGURED: Final = "CreateContainerConfigError"
RESTART_ALL: Final = "RestartAllContainers"
RESTARTING_ALL: Final = "RestartingAllContainers"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something people read about in events."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Printing:
    """What a container prints from its start on, whose command is played."""

    container: str
    start: int
    started_at: float
    play: Play


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a pod ends before its containers do; no reason when it is deleted."""

    reason: str = ""
    message: str = ""


@dataclass
class PodLife:
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
        ):  # the deletion itself is told of when the pod has ended
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

    def _fail_probe(self, container: Container, now: float) -> None:
        """End a container whose startup or liveness probe has failed too often."""
        kind = "startup" if not container.shown else "liveness"
        self._record("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: ")
        text = f"Container {container.name} failed {kind} probe, will be restarted"
        self._record("Normal", "Killing", text)
        self._stop(container, KILLED, now)

    def _renew(self, container: Container, now: float) -> None:
        """Start a container anew, whose image was changed: without back-off."""
        container.renewed, container.pulls = False, 0
        if container.state is State.RUNNING:
            text = f"Container {container.name} definition changed, will be restarted"
            self._record("Normal", "Killing", text)
            ordinary, play = container.ordinary, container.play
            container.exit_code = self.behaviour.stop_exit_code(container.name, ordinary=ordinary, play=play)
            stop = self.behaviour.stop_seconds(container.name, ordinary=ordinary, play=play)
            container.at = min(container.at, now + min(stop, DEFAULT_GRACE_SECONDS))
            container.forced, container.back_off = True, 0.0
        elif container.starts:
            if container.state is State.TERMINATED or container.reason == "CrashLoopBackOff":
                container.at, container.back_off = now + NOTICE_SECONDS, 0.0
        else:
            container.at, container.back_off, container.reason = math.inf, 0.0, CREATING

    def _step_of(self, container: Container, now: float) -> bool:
        if container.renewed and container.role is not Role.INIT:
            self._renew(container, now)
            return True
        if container.state is State.RUNNING:
            if (shown := container.probed(now)) > container.shown:
                container.shown, container.passed = shown, True
                return True
            if now >= container.killed_at:
                self._fail_probe(container, now)
                return True
            if now < container.at:
                return False
            self._stop(container, container.exit_code, now)
            return True
        if container.state is State.TERMINATED or container.starts:
            if now < container.at:
                return False
            if container.state is State.TERMINATED and container.back_off > 0:
                self._back_off(container, now)
            else:
                self._start(container, now)
            return True
        if now < container.at < math.inf:
            return False
        return self._pull(container, now)

    # ── starting ─────────────────────────────────────────────────────────────────────────────────

    def _pull(self, container: Container, now: float) -> bool:
        """Start the container, if its image can be pulled."""
        image = container.spec.get("image", "")
        if image and reference(image) is None:
            return self._invalid_name(container, image, now)
        failing = self.behaviour.failed_pulls(container.name, ordinary=container.ordinary, image=image)
        if container.pulls >= failing:
            if problem := self.behaviour.missing(self.pod, container.spec):
                return self._unconfigured(container, problem, now)
            self._start(container, now)
            return True
        if container.reason == "ErrImagePull":
            container.reason, container.message = "ImagePullBackOff", f'Back-off pulling image "{image}"'
            self._record("Normal", "BackOff", container.message)
            container.back_off = min(
                max(container.back_off * 2, FIRST_BACK_OFF_SECONDS), LONGEST_BACK_OFF_SECONDS
            )
            container.at = now + container.back_off
            return True
        container.pulls += 1
        container.reason = "ErrImagePull"
        container.message = f'failed to pull image "{image}": the simulated registry does not have it'
        self._record("Warning", "Failed", f'Failed to pull image "{image}"')
        container.at = now + NOTICE_SECONDS
        if container.pulls >= failing:
            container.back_off = 0.0
        return True

    def _unconfigured(self, container: Container, problem: str, now: float) -> bool:
        """Let the container wait: what its variables come from is not there."""
        if (container.reason, container.message) != (UNCONFIGURED, problem):
            container.reason, container.message = UNCONFIGURED, problem
            self._record("Warning", "Failed", f"Error: {problem}")
        container.at = now + LOOK_AGAIN_SECONDS
        return True

    def _invalid_name(self, container: Container, image: str, now: float) -> bool:
        """Let the container wait: its image has no name that could be asked for."""
        if container.reason != "InvalidImageName":
            container.reason = "InvalidImageName"
            problem = f'couldn\'t parse image name "{image}": invalid reference format'
            container.message = f'Failed to apply default image tag "{image}": {problem}'
            self._record("Warning", "InspectFailed", container.message)
            self._record("Warning", "Failed", "Error: InvalidImageName")
        container.at = now + LONGEST_BACK_OFF_SECONDS
        return True

    def _start(self, container: Container, now: float) -> None:
        if container.ended is not None:
            container.last = container.ended
        init, ordinary, start = container.role is Role.INIT, container.ordinary, container.starts
        play = container.play = self.behaviour.play(self.pod, container.spec, start, now)
        run = self.behaviour.run_seconds(container.name, start, ordinary=ordinary, init=init, play=play)
        container.exit_code = self.behaviour.exit_code(container.name, start, ordinary=ordinary, play=play)
        container.state, container.reason, container.message = State.RUNNING, "", ""
        container.forced = False
        container.ended, container.started_at = None, now
        container.at = now + run
        foretold = self.behaviour.probes(self.pod, container.spec, start, now)
        container.started_up_at, container.ready_at = now + foretold.started, now + foretold.ready
        container.killed_at, container.shown = now + foretold.killed, 0
        container.shown = container.probed(now)
        container.passed = container.passed or container.shown > 0
        # The first restart comes at once; what pulling the image took does not count.
        longer = min(max(container.back_off * 2, FIRST_BACK_OFF_SECONDS), LONGEST_BACK_OFF_SECONDS)
        container.back_off = longer if container.starts else 0.0
        container.starts += 1
        said = play is not None and (
            play.printed or container.spec.get("command") or container.spec.get("args")
        )
        if play is not None and said:
            self.printed.append(Printing(container.name, start, now, play))
        self._record("Normal", "Started", f"Container started: {container.name}")

    def _stop(self, container: Container, exit_code: int, now: float) -> None:
        reason = "Completed" if exit_code == 0 else "Error"
        container.state = State.TERMINATED
        message = ""
        if container.play is not None:
            self.behaviour.stopped(self.pod, container.spec, container.starts - 1, now)
            message = container.play.message if now >= container.started_at + container.play.seconds else ""
        container.ended = Ended(exit_code, reason, container.started_at, now, message)
        container.at = math.inf
        if self.ending is not None or not self._restarts(container, exit_code):
            return
        if restart_rule(container, exit_code) == RESTART_ALL:
            self._restart_all(now)
            return
        if now - container.started_at >= WELL_AFTER_SECONDS:
            container.back_off = 0.0
        container.at = now + NOTICE_SECONDS

    def _restarts(self, container: Container, exit_code: int) -> bool:
        if container.role is Role.EPHEMERAL:
            return False
        if container.role is Role.SIDECAR or container.forced:
            return True
        if restart_rule(container, exit_code):
            return True
        policy = container.spec.get("restartPolicy") or self.pod["spec"].get("restartPolicy", "Always")
        if container.role is Role.INIT:
            return exit_code != 0 and policy != "Never"
        return policy == "Always" or (policy == "OnFailure" and exit_code != 0)

    def _restart_all(self, now: float) -> None:
        """Stop what runs and start everything again, from the first init container on; without back-off."""
        for each in self.containers:
            if each.role is Role.EPHEMERAL or not each.starts:
                continue
            if each.state is State.RUNNING:
                each.ended = Ended(KILLED, RESTARTING_ALL, each.started_at, now)
            if each.ended is not None:
                each.last = each.ended
            each.state, each.ended, each.reason, each.message = State.WAITING, None, INITIALIZING, ""
            each.at, each.back_off = now + NOTICE_SECONDS, 0.0

    def _back_off(self, container: Container, now: float) -> None:
        """Let the container wait: it ended soon after it was started, and not for the first time."""
        wait, name = container.back_off, self._full_name()
        container.last, container.ended = container.ended, None
        container.state, container.reason = State.WAITING, "CrashLoopBackOff"
        container.message = (
            f"back-off {_duration(wait)} restarting failed container={container.name} pod={name}"
        )
        self._record(
            "Warning", "BackOff", f"Back-off restarting failed container {container.name} in pod {name}"
        )
        finished = container.last.finished_at if container.last is not None else now
        container.at = max(finished + wait, now)

    def _full_name(self) -> str:
        metadata = self.pod["metadata"]
        return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"

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
        hook = self.behaviour.pre_stop_seconds(container.spec, ordinary=ordinary, pod=self.pod, now=now)
        play = container.play
        stop = self.behaviour.stop_seconds(container.name, ordinary=container.ordinary, play=play)
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
            container.exit_code = self.behaviour.stop_exit_code(
                container.name, ordinary=container.ordinary, play=play
            )
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

    def _record(self, type: str, reason: str, message: str) -> None:
        self.occurrences.append(Occurrence(type, reason, message))

    def take_printed(self) -> list[Printing]:
        """Return what the containers print that were started since the last call."""
        taken, self.printed = self.printed, []
        return taken

    def take_occurrences(self) -> list[Occurrence]:
        """Return what happened since the last call."""
        taken, self.occurrences = self.occurrences, []
        return taken


def _duration(seconds: float) -> str:
    """Return a duration as Go prints it.

    >>> _duration(10.0), _duration(80.0), _duration(300.0)
    ('10s', '1m20s', '5m0s')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
