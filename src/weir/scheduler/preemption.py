"""Preemption: selects the node and the victims for a pod that fits nowhere.

Spec: core.md 3.9 "DefaultPreemption". Only nodes whose rejection removing pods can cure are tried: untolerated
taints, node affinity and volumes elsewhere cannot. On each, all lower-priority pods are removed and then reprieved
one by one while the pod still fits, those whose disruption budget would be violated first; the rest are the victims.
Pure: dry runs restore the engine's table; evicting is the caller's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from weir.objects.core import LabelSelector, Pod
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import Code, Diagnosis, PluginError, Status
from weir.scheduler.pod_class import PodClass
from weir.scheduler.pod_counts import read_selector

NAME: Final = "DefaultPreemption"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
REASON: Final = "PreemptionByScheduler"
_FAR_FUTURE: Final = "9999-12-31T23:59:59Z"


@dataclass(frozen=True)
class DisruptionBudget:
    """What preemption reads of a PodDisruptionBudget."""

    namespace: str
    name: str
    selector: LabelSelector | None
    disruptions_allowed: int
    disrupted: frozenset[str] = frozenset()  #: pods already being disrupted, which do not count again

    def covers(self, pod: Pod) -> bool:
        labels = pod.metadata.labels
        if not labels or pod.metadata.namespace != self.namespace or pod.metadata.name in self.disrupted:
            return False  # a pod without labels is never looked up, whatever the selector says
        selector = read_selector(self.selector)
        return selector is not None and bool(selector) and selector.matches(labels)


@dataclass(frozen=True)
class Preemption:
    """Where room is made, and which pods have to go for it."""

    node: str
    victims: tuple[Pod, ...]
    violations: int

    @property
    def message(self) -> str:
        return (
            f"preemption: found a potential placement for pod on node {self.node}, "
            f"preempting {len(self.victims)} victims"
        )


@dataclass(frozen=True)
class NoPreemption:
    """Why no room can be made."""

    message: str
    keeps_promise: bool = False  #: whether a node promised to the pod earlier stays promised


def priority(pod: Pod) -> int:
    """Return how important *pod* is."""
    return pod.spec.priority or 0


def _importance(pod: Pod) -> tuple[int, str]:
    """What sorts pods, the most important first: by priority, then the one that started earlier."""
    return (-priority(pod), pod.status.start_time or _FAR_FUTURE)


def not_eligible(pod: Pod, diagnosis: Diagnosis, on_nominated: Sequence[Pod]) -> str:
    """Return why *pod* may not preempt at all, or "" when it may."""
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = pod.status.nominated_node_name
    status = diagnosis.statuses.get(nominated) if nominated else None
    if not nominated or (status is not None and status.code is Code.UNRESOLVABLE):
        return ""
    for other in on_nominated:
        leaving = other.metadata.deletion_timestamp and any(
            condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason == REASON
            for condition in other.status.conditions or ()
        )
        if leaving and priority(other) < priority(pod):
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def preempt(
    engine: Engine,
    pod: Pod,
    diagnosis: Diagnosis,
    pods: Mapping[str, Pod],
    budgets: Sequence[DisruptionBudget] = (),
    nominated: Mapping[str, list[PodClass]] | None = None,
    rng: random.Random | None = None,
) -> Preemption | NoPreemption:
    """Return the cheapest way to make room for *pod*; *pods* are all pods on nodes, by key."""
    table = engine.table
    row = table.row_of.get(pod.status.nominated_node_name)
    waiting = [pods[key] for key in table.pods[row] if key in pods] if row is not None else []
    if reason := not_eligible(pod, diagnosis, waiting):
        return NoPreemption(f"preemption: {reason}", keeps_promise=True)
    potential = [name for name, status in diagnosis.statuses.items() if status.code is Code.UNSCHEDULABLE]
    a = engine.profile.arguments
    wanted = min(max(len(potential) * a.candidate_share // 100, a.least_candidates), len(potential))
    start = rng.randrange(len(potential)) if rng is not None and potential else 0
    candidates: list[Preemption] = []
    failures: dict[str, Status] = {}
    for name in (*potential[start:], *potential[:start]):
        found = _dry_run(engine, pod, name, pods, budgets, (nominated or {}).get(name, []))
        if isinstance(found, Status):
            failures[name] = found
        else:
            candidates.append(found)
            if len(candidates) >= wanted and any(not c.violations for c in candidates):
                break
    if candidates:
        return min(candidates, key=_cost)
    helpless = Status(Code.UNRESOLVABLE, (NOT_HELPFUL,), NAME)
    inner = Diagnosis(diagnosis.nodes, failures, helpless, most_bytes=diagnosis.most_bytes)
    return NoPreemption(f"preemption: {inner.message}")


def _cost(candidate: Preemption) -> tuple[int, int, int, int, tuple[int, ...]]:
    """What makes one way cheaper than another, what counts most first."""
    priorities = [priority(victim) for victim in candidate.victims]
    highest = max(priorities, default=-(2**31))
    starts = [v.status.start_time or _FAR_FUTURE for v in candidate.victims if priority(v) == highest]
    # the latest of the earliest starts wins: it lost the least work
    latest_first = tuple(-ord(char) for char in min(starts, default=""))
    return (
        candidate.violations,
        highest,
        sum(p + 2**31 for p in priorities),
        len(candidate.victims),
        latest_first,
    )


def _dry_run(
    engine: Engine,
    pod: Pod,
    node: str,
    pods: Mapping[str, Pod],
    budgets: Sequence[DisruptionBudget],
    nominated: list[PodClass],
) -> Preemption | Status:
    table = engine.table
    row = table.row_of[node]
    feasibility = engine.start_cycle(pod)
    pool = {
        key: known
        for key, known in table.pods[row].items()
        if key in pods and priority(pods[key]) < priority(pod)
    }
    if not pool:
        return Status(Code.UNRESOLVABLE, (NO_VICTIMS,), NAME)

    def refusal() -> Status | None:
        """Say why the node still refuses, with and without the pods nominated to it."""
        here = np.array([row], np.int64)
        for keys in ([f"\x00nominated/{i}" for i in range(len(nominated))], []):
            for key, other in zip(keys, nominated, strict=False):
                table.add_pod(key, other, node)
            try:
                status = feasibility.statuses(here).get(row)
            except PluginError as error:  # a filter that breaks there makes the node no candidate
                status = Status(Code.ERROR, (str(error),), NAME)
            finally:
                for key in keys:
                    table.remove_pod(key)
            if status is not None:
                return status
        return None

    for key in pool:
        table.remove_pod(key)
    away = dict(pool)
    try:
        status = refusal()
        if status is not None:
            return status
        ordered = sorted((pods[key] for key in pool), key=_importance)
        violating, others = _split(ordered, budgets)
        victims: list[Pod] = []
        violations = 0
        for victim, breaks in (*((v, True) for v in violating), *((v, False) for v in others)):
            table.add_pod(victim.key, pool[victim.key], node)
            if refusal() is None:
                del away[victim.key]
                continue
            table.remove_pod(victim.key)
            victims.append(victim)
            violations += breaks
        if not victims:
            text = f'expected at least one victim pod on node "{node}"'
            return Status(Code.ERROR, (text,), NAME)
        return Preemption(node, tuple(sorted(victims, key=_importance)), violations)
    finally:
        for key, known in away.items():
            table.add_pod(key, known, node)


def _split(pods: Sequence[Pod], budgets: Sequence[DisruptionBudget]) -> tuple[list[Pod], list[Pod]]:
    """Return the pods whose disruption violates a budget, in order of importance, and the others."""
    left = [budget.disruptions_allowed for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        broken = False
        for number in _covering(pod, budgets):
            left[number] -= 1
            if left[number] < 0:
                broken = True
                break  # the budgets that follow are not charged for a pod that breaks one already
        (violating if broken else others).append(pod)
    return violating, others


def _covering(pod: Pod, budgets: Sequence[DisruptionBudget]) -> Iterator[int]:
    return (number for number, budget in enumerate(budgets) if budget.covers(pod))
