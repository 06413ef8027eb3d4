"""State of one container of a simulated pod.

Spec: core/v1 Container; KEP-753 (sidecar containers), KEP-5307 and KEP-5532 (restart rules).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

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
