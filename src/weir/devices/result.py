"""Writes an allocation into a claim's status.

Spec: dra.md 4.7 "Result", 1.8. Tolerations are copied, and eviction reads only this copy. One node-local device makes
the whole claim node-local.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.devices.constraint import Constraint
from weir.devices.pool import Pool
from weir.devices.published import TrackedDevice
from weir.devices.usage import Amounts
from weir.objects.resource import DeviceClass, DeviceSubRequest, ResourceClaim, ResourceSlice

Document = dict[str, Any]


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
