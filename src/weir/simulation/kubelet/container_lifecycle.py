"""State and lifecycle of one container of a simulated pod: image pull, start, probes, exit, restart.

Spec: KEP-753 (sidecar containers), KEP-5307 and KEP-5532 (restart rules), core/v1 Container, PodSpec. Restarts are
immediate, then after 10 s, doubling to 5 min, reset after 10 min of running. What prevents a start (missing or invalid
image, missing ConfigMap) is reported in the status and by an event.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.simulation.kubelet.behaviour import Behaviour
from weir.simulation.kubelet.commands import Output, outcome_of, reference

Document = dict[str, Any]
CREATING: Final = "ContainerCreating"
INITIALIZING: Final = "PodInitializing"


class Role(enum.Enum):
    """What a container is for."""

    INIT = "initContainers"
    SIDECAR = "initContainers with restartPolicy Always"
    ORDINARY = "containers"
    EPHEMERAL = "ephemeralContainers"


class State(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container ended, once."""

    exit_code: int
    reason: str
    started_at: float
    finished_at: float
    message: str = ""


@dataclass(slots=True)
class Container:
    """One container of a running pod; times are seconds since the epoch."""

    spec: Document
    role: Role
    state: State = State.WAITING
    reason: str = CREATING  #: why it waits
    message: str = ""
    started_at: float = 0.0
    ended: Ended | None = None  #: while terminated
    last: Ended | None = None  #: of the run before this one
    starts: int = 0
    pulls: int = 0  #: tries to pull its image that failed
    back_off: float = 0.0  #: seconds to wait after the next end
    at: float = math.inf  #: when it ends (running) or is started or pulled again (otherwise)
    exit_code: int = 0  #: of the end at that time
    stopping: bool = False
    passed: bool = False  #: a sidecar that has started once lets the others start
    forced: bool = False  #: it is started again whatever the restart policy says
    renewed: bool = False  #: its image was changed: it starts anew
    ready_at: float = 0.0  #: when its probes let it be ready
    started_up_at: float = 0.0  #: when its startup probe has succeeded
    killed_at: float = math.inf  #: when a probe has failed too often
    shown: int = 0  #: state of its probes at the last update
    ends_at: float = math.inf  #: when this run ends unless it is stopped
    last_words: str = ""  #: termination message of that end
    stop_exit_code: int = 0  #: after SIGTERM

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def ordinary(self) -> bool:
        return self.role is Role.ORDINARY

    def probed(self, now: float) -> int:
        """Return how far a running container's probes are: 0 at first, 1 when it has started, 2 when it is ready."""
        return (now >= self.started_up_at) + (now >= self.ready_at)

    @property
    def started(self) -> bool:
        """Whether it runs and its startup probe has succeeded."""
        return self.state is State.RUNNING and self.shown >= 1

    @property
    def ready(self) -> bool:
        """Whether it runs and its probes say that it is ready."""
        return self.state is State.RUNNING and self.shown >= 2

    @property
    def wakes_at(self) -> float:
        """When something happens to it by itself."""
        if self.state is not State.RUNNING or self.shown >= 2:
            return min(self.at, self.killed_at) if self.state is State.RUNNING else self.at
        return min(self.at, self.killed_at, self.ready_at if self.shown else self.started_up_at)

    @property
    def done(self) -> bool:
        """Whether the containers behind an init container may start."""
        if self.role is Role.SIDECAR:
            return self.starts > 0 and self.reason != INITIALIZING and (self.started or self.passed)
        return self.state is State.TERMINATED and self.ended is not None and self.ended.exit_code == 0


def containers_of(pod: Document) -> Iterator[tuple[Document, Role]]:
    """Yield the containers of a pod in the order in which they start."""
    spec = pod["spec"]
    for each in spec.get("initContainers") or ():
        yield each, Role.SIDECAR if each.get("restartPolicy") == "Always" else Role.INIT
    for each in spec.get("containers") or ():
        yield each, Role.ORDINARY
    for each in spec.get("ephemeralContainers") or ():
        yield each, Role.EPHEMERAL


def restart_rule(container: Container, exit_code: int) -> str:
    """Return the action of the container's first matching restart rule, or ""."""
    for rule in container.spec.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return str(rule.get("action") or "")
    return ""


def read_ended(terminated: Document, now: float) -> Ended:
    """Return the end that a status tells of; *now* stands for times that it does not say."""
    return Ended(
        int(terminated.get("exitCode") or 0),
        terminated.get("reason", ""),
        read_time(terminated.get("startedAt"), now),
        read_time(terminated.get("finishedAt"), now),
        terminated.get("message", ""),
    )


def read_time(text: str | None, otherwise: float) -> float:
    """Return a status' time in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp() if text else otherwise


FIRST_BACK_OFF_SECONDS: Final = 10.0
LONGEST_BACK_OFF_SECONDS: Final = 300.0
WELL_AFTER_SECONDS: Final = 600.0  # a container that ran so long starts again without back-off
NOTICE_SECONDS: Final = 1.0  # until the kubelet sees that a container ended and starts it again
KILLED: Final = 137  # 128 + SIGKILL
DEFAULT_GRACE_SECONDS: Final = 30
LOOK_AGAIN_SECONDS: Final = 2.0  # for a ConfigMap or Secret that was missing
UNCONFIGURED: Final = "CreateContainerConfigError"
RESTART_ALL: Final = "RestartAllContainers"
RESTARTING_ALL: Final = "RestartingAllContainers"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something reported by an event."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Printing:
    """The output of one run of a container."""

    container: str
    start: int
    started_at: float
    output: Output


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a pod ends before its containers do; no reason when it is deleted."""

    reason: str = ""
    message: str = ""


class ContainerLifecycle:
    """The steps of a pod's containers; the pod decides the order."""

    pod: Document
    behaviour: Behaviour
    containers: list[Container]
    ending: Ending | None
    occurrences: list[Occurrence]
    printed: list[Printing]

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
            container.exit_code = container.stop_exit_code
            stop = self.behaviour.stop_seconds(container.name, ordinary=container.ordinary)
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
        """Let the container wait: its image name is invalid."""
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
        name, ordinary, start = container.name, container.ordinary, container.starts
        behaviour, outcome = self.behaviour, outcome_of(container.spec)
        container.ends_at = container.at = now + behaviour.run_seconds(
            name, start, ordinary=ordinary, init=container.role is Role.INIT, outcome=outcome
        )
        container.exit_code = behaviour.exit_code(name, start, ordinary=ordinary, outcome=outcome)
        container.stop_exit_code = behaviour.stop_exit_code(name, ordinary=ordinary, outcome=outcome)
        container.last_words = behaviour.termination_message(name, ordinary=ordinary, outcome=outcome)
        container.state, container.reason, container.message = State.RUNNING, "", ""
        container.forced = False
        container.ended, container.started_at = None, now
        times = behaviour.probes(container.spec, ordinary=ordinary)
        container.started_up_at, container.ready_at = now + times.started, now + times.ready
        container.killed_at, container.shown = now + times.killed, 0
        container.shown = container.probed(now)
        container.passed = container.passed or container.shown > 0
        # The first restart comes at once; what pulling the image took does not count.
        longer = min(max(container.back_off * 2, FIRST_BACK_OFF_SECONDS), LONGEST_BACK_OFF_SECONDS)
        container.back_off = longer if container.starts else 0.0
        container.starts += 1
        output = behaviour.output(name, ordinary=ordinary, outcome=outcome)
        if output or (output is not None and container.spec.get("command")):
            self.printed.append(Printing(name, start, now, output))
        self._record("Normal", "Started", f"Container started: {container.name}")

    def _stop(self, container: Container, exit_code: int, now: float) -> None:
        reason = "Completed" if exit_code == 0 else "Error"
        container.state = State.TERMINATED
        message = container.last_words if now >= container.ends_at else ""
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

    def _record(self, type: str, reason: str, message: str) -> None:
        self.occurrences.append(Occurrence(type, reason, message))


def _duration(seconds: float) -> str:
    """Return a duration as Go prints it.

    >>> _duration(10.0), _duration(80.0), _duration(300.0)
    ('10s', '1m20s', '5m0s')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
