"""Result of an allocation attempt: an allocation, or the rejection of every device.

Spec: dra.md 4.3 "Unschedulable and error messages". Kubernetes only reports `cannot allocate all claims`; a rejection
here names the device, the check and, for a taint, its origin.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

from weir.devices.origin import TrackedTaint
from weir.objects.resource import DeviceID

Document = dict[str, Any]

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
INVALID_POOLS: Final = "invalid resource pools were encountered"


class AllocationError(Exception):
    """The attempt failed for a reason that is not "nothing fits"; the message is the scheduler's."""


class Refusal(enum.Enum):
    """Why a request cannot have a device; each value is the phrase an explanation prints."""

    POOL_INCOMPLETE = "its pool is being updated"
    POOL_INVALID = "its pool is invalid"
    IN_USE = "it is allocated to another claim"
    NOT_IN_CLASS = "the device class does not select it"
    SELECTOR_FALSE = "a selector of the request is false for it"
    FEATURE_OFF = "it needs a feature that is turned off"
    SELECTOR_FAILED = "a selector fails for it"
    CAPACITY = "it has not the capacity that is asked for"
    COUNTERS = "its pool has not enough left of what it consumes"
    TAINTED = "it has taints that are not tolerated"
    LEFT_OVER = "it could be used, but not together with the rest that is asked for"


@dataclass(frozen=True, slots=True)
class DeviceRefusal:
    """What kept one device from one request."""

    claim: str
    request: str
    device: DeviceID
    refusal: Refusal
    taints: tuple[TrackedTaint, ...] = ()
    needed: int = 0  #: devices that the request needs of which this is one; 0: not bounded by their number

    def __str__(self) -> str:
        if not self.taints:
            return f"{self.device}: {self.refusal.value}"
        named = ", ".join(f"{taint.taint} of {taint.origin}" for taint in self.taints)
        return f"{self.device}: {named} is not tolerated"


@dataclass(frozen=True, slots=True)
class Unallocatable:
    """There is no solution on the node; *message* is what Kubernetes says, *refusals* is what happened."""

    message: str
    refusals: tuple[DeviceRefusal, ...]

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Allocation:
    """One `status.allocation` for each claim, in their order, and how well alternatives were met."""

    claims: tuple[Document, ...]
    score: int = 0

    def __bool__(self) -> bool:
        return True
