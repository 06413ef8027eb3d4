"""Device inventory for the commands: one row per device with its taints, holders and eviction preview.

Spec: KEP-5055 "User stories" (degraded devices, monitoring), dra.md 3, 7.2–7.4.
Reads the objects of a cluster in any served version. A device that is allocated but no longer published has a row,
too; only rules by name still match it. Devices of incomplete or invalid pools are listed with the reason why nothing
is allocated from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from weir.devices.claims import claims_of, reserved_for
from weir.devices.eviction import Eviction, claim_eviction, leave_at, pod_eviction
from weir.devices.origin import RuleOrigin, TrackedTaint
from weir.devices.published import TrackedDevice
from weir.devices.selector import Candidate, Question, RuleOutcome, Selection
from weir.devices.tracker import Tracker
from weir.gates import Gates
from weir.objects.core import Pod, View, ViewError, read
from weir.objects.resource import (
    Device,
    DeviceClass,
    DeviceID,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from weir.objects.times import format_time
from weir.objects.v1alpha4 import VERSION, relax
from weir.objects.versions import to_v1
from weir.taints.toleration import find_tolerating

GROUP: Final = "resource.k8s.io"
_VIEWS: Final[Mapping[str, type[View]]] = {
    "Pod": Pod,
    "ResourceSlice": ResourceSlice,
    "ResourceClaim": ResourceClaim,
    "DeviceClass": DeviceClass,
    "DeviceTaintRule": DeviceTaintRule,
}


@dataclass(frozen=True, slots=True)
class HeldTaint:
    """A taint of a device and what it means for the claim that has the device."""

    tracked: TrackedTaint
    tolerated: bool | None  #: None when the device is not allocated
    leave_at: datetime | None = None  #: when the claim's pods must leave because of it


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that has the device, and the pods that use it."""

    claim: str
    request: str
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One device."""

    id: DeviceID
    node: str  #: "" when it is not local to a node
    device: Device | None  #: None when no current slice publishes it
    taints: tuple[HeldTaint, ...] = ()
    holders: tuple[Holder, ...] = ()
    pool_problem: str = ""  #: why nothing is allocated from its pool


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rule would do: devices it selects, and pods that would leave, when."""

    published: int
    allocated: int
    pods: tuple[tuple[str, datetime], ...]
    missed: str = ""  #: why no device is selected, as the device that came closest has it
    failed: str = ""  #: what went wrong with a selector, and on which device

    @property
    def selects_nothing(self) -> bool:
        """Whether no device is concerned at all."""
        return not self.published and not self.allocated


@dataclass(slots=True)
class Inventory:
    """The objects of a cluster that concern devices."""

    gates: Gates
    tracker: Tracker = field(init=False)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    rules: dict[str, DeviceTaintRule] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  #: rules that could not be applied, in their own words

    def __post_init__(self) -> None:
        self.tracker = Tracker(self.gates)

    @classmethod
    def of(cls, documents: Iterable[Any], gates: Gates) -> Inventory:
        """Return what *documents* (also Lists) say about devices; raises ViewError for one that cannot be read."""
        found = cls(gates)
        for document in documents:
            found._add(document)
        return found

    def _add(self, document: Any) -> None:
        if not isinstance(document, dict):
            return
        kind = str(document.get("kind") or "")
        if kind.endswith("List") and isinstance(document.get("items"), list):
            shared = {"kind": kind.removesuffix("List") or None, "apiVersion": document.get("apiVersion")}
            for item in document["items"]:
                self._add({**shared, **item} if kind != "List" and isinstance(item, dict) else item)
            return
        if kind not in _VIEWS:
            return
        group, _, version = str(document.get("apiVersion") or "").rpartition("/")
        if kind != "Pod" and group != GROUP:
            return
        if version == VERSION:
            document = relax(kind, document)
        try:
            view = read(_VIEWS[kind], to_v1(version, kind, document))
        except ViewError as error:
            name = (document.get("metadata") or {}).get("name") or "without a name"
            raise ViewError(f"{kind} {name}: {error}") from None
        update = None
        if isinstance(view, ResourceSlice):
            update = self.tracker.put_slice(view)
        elif isinstance(view, DeviceTaintRule):
            self.rules[view.name] = view
            update = self.tracker.put_rule(view)
        elif isinstance(view, DeviceClass):
            self.classes[view.name] = view
            update = self.tracker.put_class(view)
        elif isinstance(view, ResourceClaim):
            self.claims[view.key] = view
        elif isinstance(view, Pod):
            self.pods[view.key] = view
        for problem in update.problems if update else ():
            text = problem.message
            text = text if text.startswith("DeviceTaintRule") else f"DeviceTaintRule {problem.rule}: {text}"
            if text not in self.problems:
                self.problems.append(text)

    def rows(self, now: datetime) -> list[Row]:
        """Return every device, by driver, pool and position; *now* stands in for taints without a time."""
        held: dict[DeviceID, list[tuple[ResourceClaim, DeviceRequestAllocationResult]]] = {}
        for claim in self.claims.values():
            for result in claim.results:
                held.setdefault(result.id, []).append((claim, result))
        users: dict[str, list[str]] = {}
        for pod in self.pods.values():
            for use in claims_of(pod, self.claims):
                if use.claim is not None and reserved_for(use.claim, pod):
                    users.setdefault(use.claim.key, []).append(pod.key)
        rows = []
        published: set[DeviceID] = set()
        for pool in self.tracker.pools():
            problem = ", ".join(pool.problems) or ("" if pool.complete else "the pool is incomplete")
            for found in pool.slices:
                for device in self.tracker.devices(found.name):
                    published.add(device.id)
                    node = (device.device.node_name if device.device else None) or found.spec.node_name or ""
                    rows.append(self._row(device.id, node, device, held, users, now, problem))
        for name in sorted(held.keys() - published):
            rows.append(self._row(name, "", None, held, users, now, "no current slice publishes it"))
        return rows

    def _row(
        self,
        name: DeviceID,
        node: str,
        device: TrackedDevice | None,
        held: Mapping[DeviceID, list[tuple[ResourceClaim, DeviceRequestAllocationResult]]],
        users: Mapping[str, list[str]],
        now: datetime,
        problem: str,
    ) -> Row:
        holding = held.get(name, [])
        taints = device.taints if device else self.tracker.taints_on(name)
        return Row(
            name,
            node,
            device.device if device else None,
            tuple(self._judged(taint, [result for _, result in holding], now) for taint in taints),
            tuple(
                Holder(claim.key, result.request, tuple(sorted(users.get(claim.key, ()))))
                for claim, result in holding
            ),
            problem,
        )

    def _judged(
        self, taint: TrackedTaint, results: list[DeviceRequestAllocationResult], now: datetime
    ) -> HeldTaint:
        if not results:
            return HeldTaint(taint, None)
        lists = [result.tolerations or () for result in results]
        tolerated = all(find_tolerating(entries, taint.plain, self.gates) is not None for entries in lists)
        times = [leave_at(taint.taint, entries, self.gates, now) for entries in lists]
        return HeldTaint(taint, tolerated, min((at for at in times if at is not None), default=None))

    def selected(self, rule: DeviceTaintRule) -> list[Candidate]:
        """Return the devices *rule* would select: published ones, and allocated ones that are not published."""
        return [one for one, selection in self._met(rule) if selection]

    def _met(self, rule: DeviceTaintRule) -> list[tuple[Candidate, Selection]]:
        allocated = {result.id for claim in self.claims.values() for result in claim.results}
        published = {device.id: device for device in self.tracker.current_devices()}
        candidates: list[Candidate] = list(published.values())
        candidates += [Candidate(name) for name in sorted(allocated - published.keys())]
        question = Question(rule, self.classes, self.tracker.expressions)
        return [(one, question(one)) for one in candidates]

    def unaffected_pods(self, rule: DeviceTaintRule, now: datetime) -> list[str]:
        """Return the pods that use a device *rule* selects and would not have to leave it, ever."""
        names = {one.id for one in self.selected(rule)}
        evictions = {pod for pod, _ in self.preview(rule, now).pods}
        found = []
        for pod in self.pods.values():
            if pod.terminated or not pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
                continue
            claims = [use.claim for use in claims_of(pod, self.claims) if use.claim is not None]
            uses = {result.id for claim in claims if reserved_for(claim, pod) for result in claim.results}
            if uses & names and pod.key not in evictions:
                found.append(pod.key)
        return sorted(found)

    def evictions(self, now: datetime) -> dict[str, Eviction]:
        """Return the pods that have to leave because of the taints there are, by key; *now* as in `rows`."""
        by_claim = {}
        for claim in self.claims.values():
            found = claim_eviction(claim, self.tracker.taints_on, self.gates, now)
            if found is not None:
                by_claim[claim.key] = found
        evictions = {key: pod_eviction(pod, self.claims, by_claim) for key, pod in self.pods.items()}
        return {key: eviction for key, eviction in evictions.items() if eviction is not None}

    def preview(self, rule: DeviceTaintRule, now: datetime) -> Preview:
        """Return what *rule* would do with the effect NoExecute from *now* on; other taints do not count."""
        judged = self._met(rule)
        chosen = [one for one, selection in judged if selection]
        names = {one.id for one in chosen}
        taint = msgspec.structs.replace(rule.spec.taint, effect="NoExecute", time_added=format_time(now))
        tracked = [TrackedTaint(taint, RuleOrigin(rule.name, rule.metadata.uid), 0)]
        evictions = {}
        for claim in self.claims.values():
            found = claim_eviction(claim, lambda name: tracked if name in names else (), self.gates, now)
            if found is not None:
                evictions[claim.key] = found
        due = []
        for pod in self.pods.values():
            eviction = pod_eviction(pod, self.claims, evictions)
            if eviction is not None:
                due.append((pod.key, eviction.at))
        held = {result.id for claim in self.claims.values() for result in claim.results}
        published = sum(one.device is not None for one in chosen)
        pods = tuple(sorted(due, key=lambda one: (one[1], one[0])))
        return Preview(
            published, len(names & held), pods, "" if chosen else _closest(judged), _failure(judged)
        )


_STEPS: Final = list(RuleOutcome)


def _closest(judged: list[tuple[Candidate, Selection]]) -> str:
    """Return why the device that a rule came closest to selecting is not selected."""
    if not judged:
        return "has no device to select: none is published or allocated"
    outcome: str = max((selection.outcome for _, selection in judged), key=_STEPS.index).value
    return outcome


def _failure(judged: list[tuple[Candidate, Selection]]) -> str:
    """Return what the selector of a rule fails with, on which device, and on how many more."""
    failing = [(one.id, selection.problem) for one, selection in judged if selection.problem]
    if not failing:
        return ""
    more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
    return f"{failing[0][1]} (on {failing[0][0]}{more})"
