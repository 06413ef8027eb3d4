"""Result of an allocation attempt: an allocation as a claim's status has it, or the rejection of every device.

Spec: dra.md 4.3 "Unschedulable and error messages", 4.7 "Result", 1.8. Kubernetes only reports `cannot allocate all
claims`; a rejection here names the device, the check and, for a taint, its origin. Tolerations are copied into the
status, and eviction reads only this copy. One node-local device makes the whole claim node-local.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.devices.constraint import Constraint
from weir.devices.origin import TrackedTaint
from weir.devices.published import Pool, TrackedDevice
from weir.devices.usage import Amounts
from weir.objects.resource import DeviceClass, DeviceID, DeviceSubRequest, ResourceClaim, ResourceSlice

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


@dataclass(frozen=True, slots=True, eq=False)
class RequestWithClass:
    """One request, or one alternative of it, with its class."""

    claim: str
    label: str  #: `req` or `req/sub`
    asked: DeviceSubRequest
    device_class: DeviceClass
    index: int = 0  #: position among the alternatives
    alternatives: bool = False

    @property
    def name(self) -> str:
        """The name that errors give it: an alternative goes by its own name alone."""
        return self.label.rpartition("/")[2]


@dataclass(frozen=True, slots=True, eq=False)
class SliceCandidate:
    """A slice on the way of the search."""

    pool: Pool
    slice: ResourceSlice
    devices: tuple[TrackedDevice, ...]
    waits: bool = False  #: whether a device of the pool has conditions to wait for before a pod is bound


@dataclass(frozen=True, slots=True)
class Pick:
    ask: RequestWithClass
    candidate: SliceCandidate
    device: TrackedDevice
    taken: Amounts
    constraints: tuple[Constraint, ...]


def written(claim: ResourceClaim, picks: list[Pick], node_name: str, share_id: Callable[[], str]) -> Document:
    """Return the `status.allocation` of a claim that got *picks*."""
    devices: Document = {}
    if picks:
        devices["results"] = [_result(pick, share_id) for pick in picks]
    if config := list(_config(claim, picks)):
        devices["config"] = config
    allocation: Document = {"devices": devices}
    selector = _node_selector(picks, node_name)
    if selector is not None:
        allocation["nodeSelector"] = selector
    return allocation


def _node_selector(picks: list[Pick], node_name: str) -> Document | None:
    requirements: list[dict[str, list[Any]]] = []
    for pick in picks:
        spec, own = pick.candidate.slice.spec, pick.device.device
        assert own is not None
        source = own if spec.per_device_node_selection else spec
        if source.node_name or own.binds_to_node:
            name = {"key": "metadata.name", "operator": "In", "values": [node_name]}
            return {"nodeSelectorTerms": [{"matchFields": [name]}]}
        if source.node_selector is not None:
            terms = _wire(source.node_selector).get("nodeSelectorTerms") or [{}]
            requirements.append(terms[0])
    if not requirements:
        return None
    together: dict[str, list[Any]] = {}
    for term in requirements:
        for field, entries in term.items():
            kept = together.setdefault(field, [])
            kept.extend(entry for entry in entries if entry not in kept)
    return {"nodeSelectorTerms": [together]}


def alternatives_chosen(picks: list[Pick]) -> Iterator[int]:
    """Yield which alternative each request with alternatives got."""
    seen: set[RequestWithClass] = set()
    for pick in picks:
        if pick.ask.alternatives and pick.ask not in seen:
            seen.add(pick.ask)
            yield pick.ask.index


def _result(pick: Pick, share_id: Callable[[], str]) -> Document:
    asked, own = pick.ask.asked, pick.device.device
    assert own is not None
    result: Document = {"request": pick.ask.label, **pick.device.id._asdict()}
    if asked.admin_access:
        result["adminAccess"] = True
    if asked.tolerations:
        result["tolerations"] = _wire(asked.tolerations)
    if own.binding_conditions:
        result["bindingConditions"] = list(own.binding_conditions)
        result["bindingFailureConditions"] = list(own.binding_failure_conditions or ())
    if own.allow_multiple_allocations:
        result["shareID"] = share_id()
        result["consumedCapacity"] = {name: str(amount) for name, amount in pick.taken.items()}
    return result


def _config(claim: ResourceClaim, picks: list[Pick]) -> Iterator[Document]:
    classes: dict[str, DeviceClass] = {pick.ask.device_class.name: pick.ask.device_class for pick in picks}
    for found in classes.values():
        for entry in found.spec.config or ():
            yield {"source": "FromClass", **entry}
    labels = {pick.ask.label for pick in picks}
    for entry in claim.spec.devices.config or ():
        named = entry.get("requests") or []
        covered = {label for label in labels if not named or {label, label.partition("/")[0]} & set(named)}
        if not covered:
            continue
        rest = {name: value for name, value in entry.items() if name != "requests"}
        yield {"source": "FromClaim", **({} if covered == labels else {"requests": named}), **rest}


def _wire(view: Any) -> Any:
    """Return a view, or several, as JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(view))
