"""How many pods may this PodDisruptionBudget's owner lose right now?

The server counts an eviction against `status.disruptionsAllowed`; this keeps that number true. What is expected is
what the pods' owners ask for, or the number of pods where a budget names a plain minAvailable.
What surprises: taint eviction does not ask budgets at all (core.md 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.controllers.actions import Action, Patch, WakeAt
from weir.controllers.known import PODS, Known
from weir.controllers.replicaset import REPLICASETS
from weir.controllers.rollout import DEPLOYMENTS
from weir.controllers.statefulset import STATEFULSETS
from weir.controllers.views import Pod, parse_time, print_time
from weir.controllers.workload import scaled
from weir.gates import Gates
from weir.objects.kinds import Kind, by_kind
from weir.selectors.labels import from_object

BUDGETS: Final = by_kind("policy/v1", "PodDisruptionBudget")
#: How long an eviction that was granted counts before its pod is seen to go.
GRANTED: Final = timedelta(minutes=2)


@dataclass(frozen=True)
class BudgetKey:
    """One PodDisruptionBudget."""

    namespace: str
    name: str


@dataclass(frozen=True)
class NamespaceBudgets:
    """Every budget of a namespace: one of its pods changed."""

    namespace: str


Key = BudgetKey | NamespaceBudgets


class Disruption:
    """The disruption controller."""

    name: Final = "disruption-controller"
    kinds: Final[tuple[Kind, ...]] = (BUDGETS, REPLICASETS, STATEFULSETS, DEPLOYMENTS, PODS)

    def __init__(self, gates: Gates) -> None:
        pass

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield the budget that changed, or all of a namespace whose pods or owners did."""
        if kind is BUDGETS:
            metadata = (new or old)["metadata"]
            yield BudgetKey(metadata["namespace"], metadata["name"])
        elif kind is PODS:
            yield NamespaceBudgets((new or old).metadata.namespace)
        else:
            yield NamespaceBudgets((new or old)["metadata"]["namespace"])

    def reconcile(self, key: Key, known: Known, now: datetime) -> Iterator[Action]:
        """Yield the status of a budget when it is no longer true."""
        if isinstance(key, NamespaceBudgets):
            for budget in known.all(BUDGETS):
                if budget["metadata"]["namespace"] == key.namespace:
                    yield WakeAt(BudgetKey(key.namespace, budget["metadata"]["name"]), now)
            return
        budget = known.get(BUDGETS, key.name, key.namespace)
        if budget is None:
            return
        selector = from_object(budget["spec"].get("selector"))
        pods: list[Pod] = [
            pod
            for pod in known.all(PODS)
            if pod.metadata.namespace == key.namespace
            and selector is not None
            and selector.matches(pod.metadata.labels or {})
            and not pod.terminated
        ]
        granted = dict(self._granted(budget, pods, now))
        healthy = sum(p.ready and not p.deleting and p.metadata.name not in granted for p in pods)
        expected, desired = _expectation(budget["spec"], pods, known)
        allowed = max(0, healthy - desired) if expected else 0
        status = {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        present = budget.get("status") or {}
        known_granted = present.get("disruptedPods") or {}
        if any(present.get(n) != v for n, v in status.items()) or granted != known_granted:
            gone = dict.fromkeys(known_granted, None)
            condition = _condition(present, allowed > 0, budget["metadata"].get("generation", 0), now)
            patch = {"status": {**status, "disruptedPods": {**gone, **granted}, "conditions": [condition]}}
            version = budget["metadata"]["resourceVersion"]
            patch["metadata"] = {"resourceVersion": version}  # an eviction granted meanwhile must not be lost
            yield Patch(BUDGETS, key.name, key.namespace, patch, subresource="status")
        if granted:
            yield WakeAt(key, now + GRANTED)

    @staticmethod
    def _granted(budget: dict[str, Any], pods: list[Pod], now: datetime) -> Iterator[tuple[str, str]]:
        """Yield the evictions that were granted and whose pods have not begun to go."""
        there = {pod.metadata.name for pod in pods if not pod.deleting}
        for name, time in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
            at = parse_time(time)
            if name in there and at is not None and now < at + GRANTED:
                yield name, time


def _expectation(spec: dict[str, Any], pods: list[Pod], known: Known) -> tuple[int, int]:
    """Return how many pods there should be, and how many of them must stay healthy."""
    at_least = spec.get("minAvailable")
    if isinstance(at_least, int):
        return len(pods), at_least
    expected = _scale(pods, known)
    if at_least is not None:
        return expected, scaled(at_least, expected, up=True)
    return expected, max(0, expected - scaled(spec.get("maxUnavailable", 1), expected, up=True))


def _scale(pods: list[Pod], known: Known) -> int:
    """Return how many pods the owners of *pods* ask for together; pods without one count as themselves."""
    total, seen = 0, set()
    for pod in pods:
        owner = next((o for o in pod.metadata.owner_references or () if o.controller), None)
        if owner is None:
            total += 1
            continue
        kind = {"ReplicaSet": REPLICASETS, "StatefulSet": STATEFULSETS}.get(owner.kind)
        found = known.get(kind, owner.name, pod.metadata.namespace) if kind is not None else None
        if found is not None and kind is REPLICASETS:
            above = next(
                (o for o in found["metadata"].get("ownerReferences") or () if o.get("controller")), None
            )
            if above is not None and above["kind"] == "Deployment":
                found = known.get(DEPLOYMENTS, above["name"], pod.metadata.namespace) or found
        if found is None:
            total += 1
        elif found["metadata"]["uid"] not in seen:
            seen.add(found["metadata"]["uid"])
            total += found["spec"].get("replicas", 1)
    return total


def _condition(present: dict[str, Any], allowed: bool, generation: int, now: datetime) -> dict[str, Any]:
    status = "True" if allowed else "False"
    reason = "SufficientPods" if allowed else "InsufficientPods"
    before = next(
        (c for c in present.get("conditions") or () if c["type"] == "DisruptionAllowed"), {"status": ""}
    )
    since = before["lastTransitionTime"] if before["status"] == status else print_time(now)
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }
