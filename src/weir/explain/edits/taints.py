"""Edits for untolerated taints and cordons.

A missed threshold is answered by tolerating this one value in addition, not by moving the threshold: it permits less,
and tolerations of a stored pod can be added but not changed. A cordon is lifted rather than tolerated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from weir.explain.edits.edit import Edit, distance_between
from weir.explain.phrases import asks
from weir.gates import Gates
from weir.objects.core import Node, Pod, Taint, Toleration
from weir.scheduler.plugins.node_unschedulable import CORDONED
from weir.scheduler.reasons import UntoleratedTaint
from weir.taints.operators import find_comparison
from weir.taints.toleration import Outcome, gate_of
from weir.taints.wellknown import OWN_PREFIXES
from weir.values.names import check_label_value

GATES_OPTION: Final = "--feature-gates="


@dataclass(frozen=True)
class AddToleration(Edit):
    """Tolerate one taint besides what is tolerated already."""

    toleration: Toleration
    distance: float = 0.0  #: distance of the taint's value from the threshold, 0 to 1

    @property
    def cost(self) -> float:
        if self.toleration.key.startswith(OWN_PREFIXES) and not self.toleration.value:
            return 60
        return (10 if self.toleration.operator == "Equal" else 15) + 5 * self.distance

    def say(self) -> str:
        value = "" if self.toleration.operator == "Exists" else f" {asks(self.toleration)}"
        what = f"{self.toleration.key}{value}"
        seconds = self.toleration.toleration_seconds
        for_time = f", for {seconds} s as the others have it" if seconds is not None else ""
        return f"also tolerate {what} ({self.toleration.effect}){for_time}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        entry = msgspec.json.decode(msgspec.json.encode(self.toleration))
        spec["tolerations"] = [*(spec.get("tolerations") or ()), entry]


@dataclass(frozen=True)
class ChangeThreshold(Edit):
    """Move the value of an existing toleration so that it takes the taint in."""

    before: Toleration
    value: str
    distance: float = 0.0

    @property
    def cost(self) -> float:
        return 12 + 5 * self.distance

    def say(self) -> str:
        after = msgspec.structs.replace(self.before, value=self.value)
        return f"tolerate {self.before.key} {asks(after)} instead of {asks(self.before)}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        spec["tolerations"] = [
            {**entry, "value": self.value} if _is(entry, self.before) else entry
            for entry in spec.get("tolerations") or ()
        ]


def _is(entry: Any, toleration: Toleration) -> bool:
    """Return whether *entry* of a document is *toleration*; a dump may hold entries that are none."""
    return isinstance(entry, dict) and msgspec.convert(entry, Toleration) == toleration


@dataclass(frozen=True)
class RemoveTaint(Edit):
    """Take the taint off the node, for every pod."""

    cost: ClassVar[float] = 65
    side: ClassVar[str] = "node"
    node_name: str
    taint: Taint

    @property
    def node(self) -> str:
        return self.node_name

    def say(self) -> str:
        return f"remove the taint {self.taint} from {self.node_name}, for every pod"

    def on_node(self, node: Node) -> Node:
        kept = tuple(t for t in node.taints if (t.key, t.effect) != (self.taint.key, self.taint.effect))
        return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=kept))

    @property
    def command(self) -> str:
        return f"kubectl taint nodes {self.node_name} {self.taint}-"


@dataclass(frozen=True)
class Uncordon(Edit):
    """Let the node take new pods again."""

    cost: ClassVar[float] = 50
    side: ClassVar[str] = "node"
    node_name: str

    @property
    def node(self) -> str:
        return self.node_name

    def say(self) -> str:
        return f"let {self.node_name} take new pods again"

    def on_node(self, node: Node) -> Node:
        """Return *node* as `kubectl uncordon` and the controller that follows it leave it."""
        taints = tuple(t for t in node.taints if (t.key, t.effect) != (CORDONED.key, CORDONED.effect))
        spec = msgspec.structs.replace(node.spec, unschedulable=None, taints=taints)
        return msgspec.structs.replace(node, spec=spec)

    @property
    def command(self) -> str:
        return f"kubectl uncordon {self.node_name}"


@dataclass(frozen=True)
class EnableGate(Edit):
    """Turn a feature on in every component."""

    cost: ClassVar[float] = 45
    side: ClassVar[str] = "cluster"
    gate: str

    def say(self) -> str:
        return f"turn the feature gate {self.gate} on in API server, scheduler, controllers and kubelet"

    def on_gates(self, gates: Gates) -> Gates:
        return gates.replace({self.gate: True})

    @property
    def command(self) -> str:
        return f"{GATES_OPTION}{self.gate}=true"


def for_taint(reason: UntoleratedTaint, node: Node, pod: Pod) -> Iterator[Edit]:
    """Yield what would get the pod past one taint."""
    taint = reason.taint
    if node.spec.unschedulable and (taint.key, taint.effect) == (CORDONED.key, CORDONED.effect):
        yield Uncordon(node.name)
    near = [a for a in reason.attempts if a.outcome not in (Outcome.OTHER_KEY, Outcome.OTHER_EFFECT)]
    distance = min((distance_between(taint.value, a.toleration.value) for a in near), default=1.0)
    # The entry that came closest says how long this pod means to stay on such nodes.
    seconds = near[0].toleration.toleration_seconds if near and taint.effect == "NoExecute" else None
    exact = bool(taint.value) and not check_label_value(taint.value)
    operator, value = ("Equal", taint.value) if exact else ("Exists", "")
    yield AddToleration(Toleration(taint.key, operator, value, taint.effect, seconds), distance)
    for attempt in near:
        comparison = find_comparison(attempt.toleration.operator)
        if comparison is None or attempt.outcome not in (Outcome.NOT_GREATER, Outcome.NOT_LESS):
            continue
        limit = comparison.limit_for(taint.value)
        if limit and attempt.toleration in pod.tolerations:
            yield ChangeThreshold(attempt.toleration, limit, distance)
    for gate in {gate_of(a.toleration) for a in near if a.outcome is Outcome.GATE_OFF}:
        yield EnableGate(gate)
    yield RemoveTaint(node.name, taint)
