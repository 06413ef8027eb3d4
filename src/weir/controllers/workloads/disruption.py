"""PodDisruptionBudget controller: keeps `status.disruptionsAllowed` current.

The API server counts evictions against that number. A pod with the condition DisruptionTarget that still exists after
two minutes gets the condition set to False. Taint eviction does not consult budgets (core.md 4.3). A budget whose
pods cannot be counted allows no disruption. Problems with a budget's pods are reported once, not at every sync.

Expected and desired healthy pod counts of a PodDisruptionBudget. An absolute minAvailable counts the existing pods.
Percentages and maxUnavailable count against the scale of the pods' controllers: ReplicaSets (their Deployment's scale),
StatefulSets, ReplicationControllers. Pods without a controller are not counted, and a pod whose controller has no scale
(a DaemonSet, a Job) makes the count fail: nothing may be disrupted then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.client.cache import ObjectKey
from weir.client.events import ObjectReference
from weir.controllers.runtime.controller import Action, Controller, Document, Patch, Record, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.pod_eviction import TYPE as DISRUPTION_TARGET
from weir.controllers.runtime.views import Pod, parse_time
from weir.controllers.workloads.pod_control import about, scaled
from weir.controllers.workloads.replicaset import REPLICATION_CONTROLLERS
from weir.controllers.workloads.statefulset import STATEFULSETS
from weir.gates import Gates
from weir.objects.core import OwnerReference
from weir.objects.kind import Kind
from weir.objects.kinds import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, find_kind
from weir.objects.times import format_time
from weir.selectors.labels import EVERYTHING, Selector, SelectorError, from_object, print_selector

#: How long an eviction that was granted counts before its pod is seen to go.
GRANTED: Final = timedelta(minutes=2)
#: How long a pod that was picked to go may stay before its condition says otherwise.
STALE: Final = timedelta(minutes=2)


SIZED: Final = {kind.kind: kind for kind in (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFULSETS)}


class NoScale(ValueError):
    """A pod whose controller has no scale."""


@dataclass(frozen=True)
class Expectation:
    """What a budget expects."""

    pods: int
    healthy: int
    unmanaged: bool = False  #: whether some pods have no owner where one is needed


def expectation(spec: Document, pods: Sequence[Pod], listers: Listers) -> Expectation:
    """Return what a budget's spec expects of *pods*; raises NoScale."""
    at_least = spec.get("minAvailable")
    if isinstance(at_least, int):
        return Expectation(len(pods), at_least)
    if at_least is None and spec.get("maxUnavailable") is None:
        return Expectation(0, 0)
    total = _scale(pods, listers)
    unmanaged = any(_owner(pod) is None for pod in pods)
    if at_least is not None:
        return Expectation(total, scaled(at_least, total, up=True), unmanaged)
    return Expectation(total, max(0, total - scaled(spec["maxUnavailable"], total, up=True)), unmanaged)


def _owner(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references or () if owner.controller), None)


def _scale(pods: Sequence[Pod], listers: Listers) -> int:
    """Return the total scale of the controllers of *pods*."""
    sizes: dict[str, int] = {}
    for pod in pods:
        owner = _owner(pod)
        if owner is not None and owner.uid not in sizes:
            uid, size = _size(owner, pod, listers)
            sizes[uid] = size
    return sum(sizes.values())


def _size(owner: OwnerReference, pod: Pod, listers: Listers) -> tuple[str, int]:
    kind = SIZED.get(owner.kind)
    if kind is None:
        raise NoScale(_without_scale(owner))
    found = _find(kind, owner.name, owner.uid, pod.metadata.namespace, listers)
    if found is not None and kind is REPLICA_SETS:
        above = next((o for o in found["metadata"].get("ownerReferences") or () if o.get("controller")), None)
        if above is not None and above["kind"] == DEPLOYMENTS.kind:
            found = _find(DEPLOYMENTS, above["name"], above["uid"], pod.metadata.namespace, listers)
    if found is None:
        raise NoScale(f'found no controllers for pod "{pod.metadata.name}"')
    return found["metadata"]["uid"], found["spec"].get("replicas", 1)


def _find(kind: Kind, name: str, uid: str, namespace: str, listers: Listers) -> Document | None:
    found: Document | None = listers.get(kind, name, namespace) if listers.serves(kind) else None
    return found if found is not None and found["metadata"]["uid"] == uid else None


def _without_scale(owner: OwnerReference) -> str:
    kind = find_kind(owner.api_version, owner.kind)
    if kind is None:
        return f'no matches for kind "{owner.kind}" in version "{owner.api_version}"'
    name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    return f"{name} does not implement the scale subresource"


class NamespaceBudgets(msgspec.Struct, frozen=True):
    """Every budget of a namespace: the owner of one of its pods changed."""

    namespace: str


class BudgetedPod(msgspec.Struct, frozen=True):
    """A pod that came, or changed its labels or readiness: several budgets may claim it."""

    namespace: str
    name: str


class PickedPod(msgspec.Struct, frozen=True):
    """A pod that was picked to go."""

    namespace: str
    name: str


Key = ObjectKey | NamespaceBudgets | BudgetedPod | PickedPod


class Disruption(Controller):
    """The disruption controller."""

    name = "disruption-controller"
    event_source = "controllermanager"
    kinds: Sequence[Kind] = (POD_DISRUPTION_BUDGETS, *SIZED.values(), DEPLOYMENTS, PODS)

    def __init__(self, gates: Gates) -> None:
        self._reported: dict[
            ObjectKey, frozenset[str]
        ] = {}  # what is odd about each budget, as last reported
        self._selectors: dict[str, dict[str, Selector | None]] = {}  # of budgets, by namespace and name

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield the budgets that changed, whose pods did, or in whose namespace an owner did."""
        if kind is POD_DISRUPTION_BUDGETS:
            metadata = (new or old)["metadata"]
            self._note(metadata["namespace"], metadata["name"], new)
            yield ObjectKey(metadata["namespace"], metadata["name"])
        elif kind is PODS:
            metadata = (new or old).metadata
            if new is not None and _picked_at(new) is not None:
                yield PickedPod(metadata.namespace, metadata.name)
            selected = 0
            for name, selector in self._selectors.get(metadata.namespace, {}).items():
                is_new = new is not None and _selects(selector, new)
                selected += is_new
                if is_new or (old is not None and _selects(selector, old)):
                    yield ObjectKey(metadata.namespace, name)
            if selected > 1 and _face(old) != _face(new):
                yield BudgetedPod(metadata.namespace, metadata.name)
        elif old is None or new is None or old["spec"].get("replicas") != new["spec"].get("replicas"):
            namespace = (new or old)["metadata"]["namespace"]
            if namespace in self._selectors:
                yield NamespaceBudgets(namespace)

    def _note(self, namespace: str, name: str, budget: Document | None) -> None:
        """Note a budget that came, changed or went: where there is none, nothing else need be looked at."""
        there = self._selectors.setdefault(namespace, {})
        if budget is None:
            there.pop(name, None)
            if not there:
                del self._selectors[namespace]
            return
        try:
            there[name] = from_object(budget["spec"].get("selector"))
        except SelectorError:
            there[name] = EVERYTHING  # so that the budget is looked at, which says what is wrong

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the status of a budget when it is no longer true."""
        if isinstance(key, ObjectKey):
            yield from self._budget(key, listers, now)
        elif isinstance(key, PickedPod):
            yield from _not_disrupted(key, listers, now)
        elif isinstance(key, BudgetedPod):
            pod = listers.pod(key.namespace, key.name)
            names = sorted(
                budget["metadata"]["name"]
                for budget in listers.within(POD_DISRUPTION_BUDGETS, key.namespace)
                if pod is not None and _selects(from_object(budget["spec"].get("selector")), pod)
            )
            if pod is not None and len(names) > 1:
                text = (
                    f'Pod "{key.namespace}"/"{key.name}" matches multiple PodDisruptionBudgets.  '
                    f'Chose "{names[0]}" arbitrarily.'
                )
                yield Record(_about(pod), "Warning", "MultiplePodDisruptionBudgets", text)
        else:
            for budget in listers.within(POD_DISRUPTION_BUDGETS, key.namespace):
                yield WakeAt(ObjectKey(key.namespace, budget["metadata"]["name"]), now)

    def _budget(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        budget = listers.get(POD_DISRUPTION_BUDGETS, key.name, key.namespace)
        if budget is None:
            self._reported.pop(key, None)
            return
        selector = from_object(budget["spec"].get("selector"))
        pods: list[Pod] = [pod for pod in listers.within(PODS, key.namespace) if _selects(selector, pod)]
        try:
            expected = expectation(budget["spec"], pods, listers)
        except NoScale as error:
            yield from self._uncountable(key, budget, str(error), now)
            return
        yield from self._report(key, budget, empty=not pods, unmanaged=expected.unmanaged)
        granted = dict(_granted(budget, pods, now))
        yield from _not_deleted(budget, pods, now)
        healthy = sum(p.ready and not p.deleting and p.metadata.name not in granted for p in pods)
        allowed = max(0, healthy - expected.healthy) if expected.pods else 0
        status = {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": expected.healthy,
            "expectedPods": expected.pods,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        present = budget.get("status") or {}
        reason = "SufficientPods" if allowed else "InsufficientPods"
        condition = _condition(present, reason, "", status["observedGeneration"], now)
        known_granted = present.get("disruptedPods") or {}
        if (
            any(present.get(n) != v for n, v in status.items())
            or granted != known_granted
            or _found(present).get("reason") != reason
        ):
            gone = dict.fromkeys(known_granted, None)
            yield _write(key, budget, {**status, "disruptedPods": {**gone, **granted}}, condition)
        if granted:
            yield WakeAt(key, now + GRANTED)

    def _uncountable(self, key: ObjectKey, budget: Document, problem: str, now: datetime) -> Iterator[Action]:
        """Yield the status of a budget whose pods cannot be counted: nothing may be disrupted."""
        present = budget.get("status") or {}
        text = f"Failed to calculate the number of expected pods: {problem}"
        if self._reported.get(key) != frozenset({text}):
            self._reported[key] = frozenset({text})
            yield Record(
                about(budget, POD_DISRUPTION_BUDGETS), "Warning", "CalculateExpectedPodCountFailed", text
            )
        generation = present.get("observedGeneration", 0)
        condition = _condition(present, "SyncFailed", problem, generation, now)
        before = _found(present)
        same = (before.get("reason"), before.get("message")) == ("SyncFailed", problem)
        if not same or present.get("disruptionsAllowed"):
            zero = ("currentHealthy", "desiredHealthy", "expectedPods")
            counts = {name: present.get(name, 0) for name in zero}
            yield _write(key, budget, {"disruptionsAllowed": 0, **counts}, condition)

    def _report(self, key: ObjectKey, budget: Document, *, empty: bool, unmanaged: bool) -> Iterator[Action]:
        odd = {
            "NoPods": ("Normal", "No matching pods found", empty),
            "UnmanagedPods": ("Warning", _unmanaged(budget["spec"].get("selector")), unmanaged),
        }
        now = frozenset(reason for reason, (_, _, so) in odd.items() if so)
        before = self._reported.get(key, frozenset())
        self._reported[key] = now
        for reason in sorted(now - before):
            type, message, _ = odd[reason]
            yield Record(about(budget, POD_DISRUPTION_BUDGETS), type, reason, message)


def _face(pod: Pod | None) -> tuple[Any, ...] | None:
    return (pod.metadata.labels, pod.ready) if pod is not None else None


def _selects(selector: Selector | None, pod: Pod) -> bool:
    return selector is not None and selector.matches(pod.metadata.labels or {})


def _granted(budget: Document, pods: list[Pod], now: datetime) -> Iterator[tuple[str, str]]:
    """Yield granted evictions whose pods have no deletionTimestamp yet."""
    there = {pod.metadata.name for pod in pods if not pod.deleting}
    for name, time in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
        at = parse_time(time)
        if name in there and at is not None and now < at + GRANTED:
            yield name, time


def _not_deleted(budget: Document, pods: list[Pod], now: datetime) -> Iterator[Action]:
    granted = (budget.get("status") or {}).get("disruptedPods") or {}
    namespace = budget["metadata"]["namespace"]
    for pod in pods:
        at = parse_time(granted.get(pod.metadata.name))
        if at is not None and now >= at + GRANTED and not pod.deleting:
            # It is the namespace that upstream names twice, too.
            text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            yield Record(_about(pod), "Warning", "NotDeleted", text)


def _not_disrupted(key: PickedPod, listers: Listers, now: datetime) -> Iterator[Action]:
    pod = listers.pod(key.namespace, key.name)
    at = _picked_at(pod) if pod is not None else None
    if at is None:
        return
    if now < at + STALE:
        yield WakeAt(key, at + STALE)
        return
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "False",
        "lastTransitionTime": format_time(now),
        "reason": None,
        "message": None,
    }
    patch = {"status": {"conditions": [condition]}}
    yield Patch(PODS, key.name, key.namespace, patch, STRATEGIC_MERGE_PATCH, subresource="status")


def _picked_at(pod: Pod) -> datetime | None:
    """Return when a pod was picked to go that has not begun to; what the kubelet picks may take its time."""
    found = pod.status.condition(DISRUPTION_TARGET)
    if found is None or found.status != "True" or found.reason == "TerminationByKubelet":
        return None
    return None if pod.deleting or pod.terminated else parse_time(found.last_transition_time)


def _about(pod: Pod) -> ObjectReference:
    metadata = pod.metadata
    return ObjectReference(
        "Pod", metadata.name, metadata.namespace, metadata.uid, resource_version=metadata.resource_version
    )


def _found(present: Document) -> Document:
    conditions = present.get("conditions") or ()
    return next((c for c in conditions if c["type"] == "DisruptionAllowed"), {})


def _condition(
    present: Document, reason: str, message: str, generation: int, now: datetime
) -> dict[str, Any]:
    status = "True" if reason == "SufficientPods" else "False"
    before = _found(present)
    since = before["lastTransitionTime"] if before.get("status") == status else format_time(now)
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }


def _write(key: ObjectKey, budget: Document, status: Document, condition: Document) -> Patch:
    # The version is named: an eviction granted meanwhile must not be lost.
    version = {"resourceVersion": budget["metadata"]["resourceVersion"]}
    patch = {"metadata": version, "status": {**status, "conditions": [condition]}}
    return Patch(POD_DISRUPTION_BUDGETS, key.name, key.namespace, patch, subresource="status")


def _unmanaged(selector: Document | None) -> str:
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {print_selector(selector)}) were found to be unmanaged. "
        "As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "
        'To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
    )
