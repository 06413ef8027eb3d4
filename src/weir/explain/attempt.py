"""One scheduling attempt by the scheduler's engine, with preemption: its event and condition texts.

Spec: core.md 3.6 "Reason strings of all filters", 3.9 "DefaultPreemption", 3.10 "Events and conditions".
The text is the engine's Diagnosis, in weir's words (which name the taint) and in those of Kubernetes 1.35 and later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weir.explain.engine import EngineJudge
from weir.gates import Gates
from weir.objects.core import read
from weir.scheduler.claim_writes import DEALLOCATED
from weir.scheduler.claims import Claims
from weir.scheduler.framework import Diagnosis, NoNodes, PluginError
from weir.scheduler.preemption import DisruptionBudget, Preemption, preempt
from weir.scheduler.preemption_eviction import Budget, disruption_budgets
from weir.scheduler.reasons import UntoleratedTaint
from weir.world import World

#: Upstream's device plugin loses its state after a PreFilter rejection and says so (core.md D-37).
_LOST_STATE = "not found"


@dataclass(frozen=True)
class Attempt:
    """What the scheduler writes as event and condition; "" when it writes nothing."""

    message: str = ""
    upstream: str = ""  #: the same in the words of current Kubernetes
    node: str = ""  #: where room could be made
    victims: tuple[str, ...] = ()  #: the pods that would have to go


def attempt(judge: EngineJudge, world: World, gates: Gates, claims: Claims | None) -> Attempt:
    """Return what comes of one attempt to place the judge's pod, which no node takes."""
    pod, engine = judge.pod, judge.engine
    if claims is not None and claims.gate(pod):
        return Attempt()  # PreEnqueue: it is not tried at all
    try:
        answer = engine.place(pod, judge.nominated)
    except (NoNodes, PluginError) as error:
        return Attempt(str(error), str(error))
    if not isinstance(answer, Diagnosis):
        return Attempt()
    freed = f"{DEALLOCATED}, " if engine.post_filter(pod) is not None else ""
    outcome = preempt(engine, pod, answer, world.pods, budgets_in(world), judge.nominated)
    after = f"{freed}{outcome.message}"
    loses_state = (
        bool(answer.prefilter)
        and "DynamicResources" not in answer.plugins
        and gates.enabled("DynamicResourceAllocation")
    )
    upstream = f"{in_upstream_words(answer).message} {_LOST_STATE if loses_state else after}"
    message = f"{answer.message} {after}"
    if isinstance(outcome, Preemption):
        return Attempt(message, upstream, outcome.node, tuple(victim.key for victim in outcome.victims))
    return Attempt(message, upstream)


def in_upstream_words(diagnosis: Diagnosis) -> Diagnosis:
    """Return *diagnosis* as Kubernetes 1.35 and later word it: the taint is not named."""
    taints = UntoleratedTaint.plugin
    statuses = {
        node: replace(status, reasons=(UntoleratedTaint.words,)) if status.plugin == taints else status
        for node, status in diagnosis.statuses.items()
    }
    return replace(diagnosis, statuses=statuses)


def budgets_in(world: World) -> Sequence[DisruptionBudget]:
    """Return the disruption budgets that preemption tries to keep."""
    return disruption_budgets(
        read(Budget, document) for document in world.documents.get("PodDisruptionBudget", {}).values()
    )
