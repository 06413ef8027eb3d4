"""Evicts the victims of a preemption, and reads the disruption budgets that protect pods.

Spec: core.md 3.9 "Preemption". A victim gets the condition DisruptionTarget and an event, and is deleted;
lower-priority pods nominated to the node lose the nomination.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from weir.client.api import Client
from weir.clock import Clock
from weir.errors import ApiError
from weir.objects.core import LabelSelector, Pod, View
from weir.objects.kinds import PODS
from weir.objects.times import format_time
from weir.scheduler.preemption import DisruptionBudget, Preemption, priority
from weir.scheduler.status_reporter import StatusReporter

_PREEMPTED: Final = "PreemptionByScheduler"


class _BudgetMetadata(View, frozen=True):
    name: str = ""
    namespace: str = ""


class _BudgetSpec(View, frozen=True):
    selector: LabelSelector | None = None


class _BudgetStatus(View, frozen=True):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None


class Budget(View, frozen=True):
    """What preemption reads of a PodDisruptionBudget."""

    metadata: _BudgetMetadata = _BudgetMetadata()
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


def disruption_budgets(budgets: Iterable[Budget]) -> list[DisruptionBudget]:
    """Return the budgets as preemption counts by them."""
    return [
        DisruptionBudget(
            budget.metadata.namespace,
            budget.metadata.name,
            budget.spec.selector,
            budget.status.disruptions_allowed,
            frozenset(budget.status.disrupted_pods or ()),
        )
        for budget in budgets
    ]


async def evict_victims(
    pod: Pod,
    preemption: Preemption,
    nominated: dict[str, tuple[str, Pod]],
    client: Client,
    clock: Clock,
    reporter: StatusReporter,
) -> None:
    """Send the victims away, and take back promises of room to less important pods.

    When all victims are leaving already there is nothing to do, and the promises stand until they are tried again.
    """
    if all(victim.metadata.deletion_timestamp for victim in preemption.victims):
        return
    for key, (node, other) in list(nominated.items()):
        if node == preemption.node and priority(other) < priority(pod):
            del nominated[key]
            await reporter.patch_status(other, {"nominatedNodeName": None})
    for victim in preemption.victims:
        if victim.metadata.deletion_timestamp:
            continue
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": _PREEMPTED,
            "message": f"{pod.spec.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": format_time(clock.now()),
            "observedGeneration": victim.metadata.generation,
        }
        await reporter.patch_status(victim, {"conditions": [condition]})
        try:
            await client.delete(PODS, victim.metadata.name, victim.metadata.namespace)
        except ApiError:
            continue  # already gone, or to be tried again by a later attempt
        note = f"Preempted by pod {pod.metadata.uid} on node {preemption.node}"
        reporter.record_event(
            victim, "Normal", "Preempted", "Preempting", note, reporter=pod.spec.scheduler_name
        )
