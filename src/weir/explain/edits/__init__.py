"""Edits that address a rejection reason: on the pod, a node, or the feature gates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from weir.explain.edits.devices import for_class, for_devices, for_tied
from weir.explain.edits.edit import Edit
from weir.explain.edits.labels import ChangeSelector, DropAffinity, DropPreferences, for_term
from weir.explain.edits.names import for_claim, for_refusal, for_runtime_class
from weir.explain.edits.neighbours import for_neighbours
from weir.explain.edits.ports import for_port
from weir.explain.edits.room import for_shortage
from weir.explain.edits.taints import GATES_OPTION, EnableGate, Uncordon, for_taint
from weir.explain.reasons import Gated, Refused
from weir.gates import Gates
from weir.objects.core import Node, NodeSelectorRequirement, Pod
from weir.scheduler.claim_reasons import ClaimTied, ClaimUnusable, DeviceClaimUnusable, NoDevices
from weir.scheduler.reasons import (
    AvoidedPodNear,
    Cordoned,
    NoPodNear,
    NoTopologyDomain,
    OtherNode,
    PortTaken,
    Reason,
    TooFew,
    TooSkewed,
    UnmetAffinity,
    UnreadablePreference,
    UntoleratedTaint,
    WrongLabel,
)
from weir.selectors.node import Match, preferred_terms, required_selector
from weir.taints.operators import find_in_affinity
from weir.taints.toleration import gate_of
from weir.world import World

__all__ = ["GATES_OPTION", "DropPreferences", "Edit", "answers", "cost_of", "gates_used"]

#: What every edit after the first costs more: one is preferred to two wherever one is enough.
_EACH: Final = 15.0


@dataclass(frozen=True)
class ClearNodeName(Edit):
    """Let the scheduler choose the node."""

    cost: ClassVar[float] = 20
    wanted: str

    def say(self) -> str:
        return f"remove nodeName ({self.wanted}) and let the scheduler choose"

    def on_pod(self, spec: dict[str, Any]) -> None:
        spec.pop("nodeName", None)


@dataclass(frozen=True)
class Ungate(Edit):
    """Let the scheduler look at the pod."""

    cost: ClassVar[float] = 5
    gates: tuple[str, ...]

    def say(self) -> str:
        return f"remove the scheduling gates {', '.join(self.gates)}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        spec.pop("schedulingGates", None)


def answers(
    reason: Reason, node: Node, pod: Pod, world: World, gates: Gates, written: Mapping[str, Any]
) -> list[tuple[Edit, ...]]:
    """Return the sets of edits that would answer *reason*, cheapest first; empty: nothing here can.

    *written* is the pod spec as written, before admission.
    """
    choices: list[tuple[Edit, ...]] = []
    match reason:
        case UntoleratedTaint():
            choices = [(edit,) for edit in for_taint(reason, node, pod)]
        case Cordoned():
            choices = [(Uncordon(node.name),)]
        case WrongLabel(key, wanted, value):
            choices = [(ChangeSelector(key, wanted, value),)]
            if value is not None:
                choices.append((ChangeSelector(key, wanted, None),))
            if runtime := for_runtime_class(key, written, world):
                own = key in (written.get("nodeSelector") or ())
                choices = [(ChangeSelector(key, wanted, None), runtime) if own else (runtime,)]
        case UnmetAffinity(terms):
            choices = [tuple(for_term(term)) for term in terms if term.unmet]
            disabled = (
                each.requirement for term in terms for each in term.unmet if each.match is Match.GATE_OFF
            )
            choices += [(EnableGate(gate),) for gate in sorted(_affinity_gates(disabled))]
            choices = choices or [(DropAffinity(),)]
        case OtherNode(wanted):
            choices = [(ClearNodeName(wanted),)]
        case TooFew():
            choices = [(edit,) for edit in for_shortage(reason, pod)]
        case PortTaken():
            choices = list(for_port(reason, pod, world))
        case TooSkewed() | NoTopologyDomain() | NoPodNear() | AvoidedPodNear():
            choices = list(for_neighbours(reason))
        case ClaimUnusable():
            choices = list(for_claim(reason, pod, world))
        case Gated(names):
            choices = [(Ungate(names),)]
        case NoDevices():
            choices = list(for_devices(reason, pod, world))
        case DeviceClaimUnusable():
            choices = list(for_class(pod, world))
        case ClaimTied():
            choices = list(for_tied(reason))
        case UnreadablePreference(_, terms, requirements):
            choices = [(DropPreferences(terms, requirements),)]
        case Refused():
            off = tuple(EnableGate(gate) for gate in sorted(gates_used(pod)) if not gates.enabled(gate))
            choices = [off] if off else []
            choices += [(edit,) for edit in for_refusal(pod, written, world)]
    return sorted(choices, key=cost_of)


def cost_of(edits: Iterable[Edit]) -> float:
    """Return what a set of edits costs; one is preferred to two wherever one is enough."""
    different = dict.fromkeys(edits)
    return sum(edit.cost for edit in different) + _EACH * max(len(different) - 1, 0)


def gates_used(pod: Pod) -> set[str]:
    """Return the feature gates that what *pod* asks for needs."""
    used = {gate_of(toleration) for toleration in pod.tolerations} - {""}
    required = required_selector(pod)
    terms = [
        *((required.node_selector_terms or ()) if required else ()),
        *(t.preference for t in preferred_terms(pod)),
    ]
    return used | _affinity_gates(each for term in terms for each in term.match_expressions or ())


def _affinity_gates(requirements: Iterable[NodeSelectorRequirement]) -> set[str]:
    operators = (find_in_affinity(requirement.operator) for requirement in requirements)
    return {operator.affinity_gate for operator in operators if operator is not None} - {""}
