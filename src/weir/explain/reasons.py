"""Reasons why a pod is not scheduled before any filter runs.

Filters' reasons are in weir.scheduler.reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weir.scheduler.reasons import Reason


@dataclass(frozen=True, slots=True)
class Gated(Reason):
    """Scheduling gates hold the pod back; the scheduler does not look at it."""

    kind: ClassVar[str] = "scheduling-gates"
    plugin: ClassVar[str] = "SchedulingGates"
    gates: tuple[str, ...]

    def message(self) -> str:
        return f"waiting for scheduling gates: [{' '.join(self.gates)}]"


@dataclass(frozen=True, slots=True)
class Over(Reason):
    """The pod has ended or is being deleted; the scheduler does not look at it."""

    kind: ClassVar[str] = "over"
    phase: str  #: Succeeded or Failed; "" while it is being deleted

    def message(self) -> str:
        return f"it has ended ({self.phase})" if self.phase else "it is being deleted"


@dataclass(frozen=True, slots=True)
class Refused(Reason):
    """The API server would not accept the pod, or its workload, as written."""

    kind: ClassVar[str] = "invalid"
    errors: tuple[str, ...]

    def message(self) -> str:
        return self.errors[0]
