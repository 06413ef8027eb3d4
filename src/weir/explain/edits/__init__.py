"""Which changes answer one reason? Edits to the pod's document, to a node, or to the feature gates.

Not here: which edits together are enough (weir.explain.fix).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weir.explain.edits.devices import AddDeviceToleration, RemoveRule, for_devices, for_tied
from weir.explain.edits.edit import Edit
from weir.explain.edits.labels import (
    ChangeRequirement,
    ChangeSelector,
    DropAffinity,
    DropPreferences,
    for_term,
)
from weir.explain.edits.room import LowerRequest, for_shortage
from weir.explain.edits.taints import (
    GATES_OPTION,
    AddToleration,
    ChangeThreshold,
    EnableGate,
    RemoveTaint,
    Uncordon,
    for_taint,
)
from weir.explain.phrases import gate_of
from weir.explain.reasons import Gated, Refused
from weir.gates import SEMVER_COMPARISON, Gates
from weir.objects.core import Node, Pod
from weir.scheduler.device_reasons import ClaimTied, NoDevices
from weir.scheduler.reasons import (
    Cordoned,
    OtherNode,
    Reason,
    TooFew,
    UnmetAffinity,
    UnreadablePreference,
    UntoleratedTaint,
    WrongLabel,
)
from weir.selectors.node import SEMVER_OPERATORS, Match, preferred_terms, required_selector

__all__ = [
    "GATES_OPTION",
    "AddDeviceToleration",
    "AddToleration",
    "ChangeRequirement",
    "ChangeSelector",
    "ChangeThreshold",
    "ClearNodeName",
    "DropAffinity",
    "DropPreferences",
    "Edit",
    "EnableGate",
    "LowerRequest",
    "RemoveRule",
    "RemoveTaint",
    "Uncordon",
    "Ungate",
    "answers",
    "gates_used",
]


@dataclass(frozen=True)
class ClearNodeName(Edit):
    """Let the scheduler choose the node."""

    wanted: str

    @property
    def cost(self) -> float:
        return 20

    def say(self) -> str:
        return f"remove nodeName ({self.wanted}) and let the scheduler choose"

    def on_pod(self, spec: dict[str, Any]) -> None:
        spec.pop("nodeName", None)


@dataclass(frozen=True)
class Ungate(Edit):
    """Let the scheduler look at the pod."""

    gates: tuple[str, ...]

    @property
    def cost(self) -> float:
        return 5

    def say(self) -> str:
        return f"remove the scheduling gates {', '.join(self.gates)}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        spec.pop("schedulingGates", None)


def answers(reason: Reason, node: Node, pod: Pod, gates: Gates) -> list[tuple[Edit, ...]]:
    """Return the sets of edits that would answer *reason*, cheapest first; empty: nothing here can."""
    found: list[tuple[Edit, ...]] = []
    match reason:
        case UntoleratedTaint():
            found = [(edit,) for edit in for_taint(reason, node, pod)]
        case Cordoned():
            found = [(Uncordon(node.name),)]
        case WrongLabel(key, wanted, value):
            found = [(ChangeSelector(key, wanted, value),)]
            if value is not None:
                found.append((ChangeSelector(key, wanted, None),))
        case UnmetAffinity(terms):
            found = [tuple(for_term(term)) for term in terms if term.unmet]
            if any(u.match is Match.GATE_OFF for term in terms for u in term.unmet):
                found.append((EnableGate(SEMVER_COMPARISON),))
            found = found or [(DropAffinity(),)]
        case OtherNode(wanted):
            found = [(ClearNodeName(wanted),)]
        case TooFew():
            found = [(edit,) for edit in for_shortage(reason, pod)]
        case Gated(names):
            found = [(Ungate(names),)]
        case NoDevices():
            found = list(for_devices(reason, pod))
        case ClaimTied():
            found = list(for_tied(reason))
        case UnreadablePreference(_, terms, requirements):
            found = [(DropPreferences(terms, requirements),)]
        case Refused():
            off = tuple(EnableGate(gate) for gate in sorted(gates_used(pod)) if not gates.enabled(gate))
            found = [off] if off else []
    return sorted(found, key=lambda edits: sum(edit.cost for edit in edits))


def gates_used(pod: Pod) -> set[str]:
    """Return the feature gates that what *pod* asks for needs."""
    used = {gate_of(toleration) for toleration in pod.tolerations} - {""}
    required = required_selector(pod)
    terms = [
        *((required.node_selector_terms or ()) if required else ()),
        *(t.preference for t in preferred_terms(pod)),
    ]
    if any(r.operator in SEMVER_OPERATORS for term in terms for r in term.match_expressions or ()):
        used.add(SEMVER_COMPARISON)
    return used
