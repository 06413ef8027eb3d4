"""Which single change answers one reason? Edits to the pod's document, to a node, or to the feature gates.

An edit to the pod is made on its document, so that what is proven is exactly what is shown. Every edit has a
cost: how much more it permits than was asked for. Exact values are cheap; asking for less is dearer; what
changes things for other pods (uncordoning, removing a taint, a gate) is dearer still, and tolerating node
conditions or dropping a whole request dearest.
What surprises: a threshold that was missed is answered by tolerating this one value besides, not by moving the
threshold: it permits less, and a stored pod allows adding tolerations but not changing them.
Not here: which edits together are enough (weir.explain.fix).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from weir.explain.node import UNSCHEDULABLE, uncordoned
from weir.explain.verdict import (
    Cordoned,
    Gated,
    OtherNode,
    Reason,
    Refused,
    TooFew,
    Unmet,
    UnmetAffinity,
    UnmetTerm,
    UntoleratedTaint,
    WrongLabel,
)
from weir.explain.words import asks, gate_of, requires
from weir.gates import SEMVER_COMPARISON, Gates
from weir.objects.core import Node, Pod, Taint, Toleration
from weir.objects.requests import container_requests, pod_requests, restarts, show_amount
from weir.selectors.node import SEMVER_OPERATORS, Match, preferred_terms, required_selector
from weir.taints.toleration import Outcome
from weir.values.integer import IntegerError, parse_int64
from weir.values.names import check_label_value
from weir.values.semver import Version, find_tolerant

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
GATES_OPTION: Final = "--feature-gates="
_CONDITIONS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


@dataclass(frozen=True)
class Edit:
    """One change; `cost` orders edits by how much they permit."""

    side: ClassVar[str] = "pod"

    @property
    def cost(self) -> float:
        raise NotImplementedError

    def say(self) -> str:
        """Return the change as one imperative sentence."""
        raise NotImplementedError

    def on_pod(self, spec: dict[str, Any]) -> None:
        """Make the change in the pod spec of a document."""

    def on_node(self, node: Node) -> Node:
        """Return *node* with the change made."""
        return node

    def on_gates(self, gates: Gates) -> Gates:
        """Return *gates* with the change made."""
        return gates

    @property
    def node(self) -> str:
        """The node it changes, or ""."""
        return ""

    @property
    def command(self) -> str:
        """The command that makes the change, or "" when a patch does."""
        return ""

    @property
    def order(self) -> tuple[int, ...]:
        """Where it is made among others: removals of list entries from the last to the first."""
        return (0,)


# ── tolerations ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class AddToleration(Edit):
    """Tolerate one taint besides what is tolerated already."""

    toleration: Toleration
    distance: float = 0.0  #: how far the taint's value is from what was asked, 0 to 1

    @property
    def cost(self) -> float:
        if self.toleration.key.startswith(_CONDITIONS) and not self.toleration.value:
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

    index: int
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
        entries = list(spec.get("tolerations") or ())
        if self.index < len(entries):
            entries[self.index] = {**entries[self.index], "value": self.value}
        spec["tolerations"] = entries


@dataclass(frozen=True)
class RemoveTaint(Edit):
    """Take the taint off the node, for every pod."""

    side: ClassVar[str] = "node"
    node_name: str
    taint: Taint

    @property
    def node(self) -> str:
        return self.node_name

    @property
    def cost(self) -> float:
        return 65

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

    side: ClassVar[str] = "node"
    node_name: str

    @property
    def node(self) -> str:
        return self.node_name

    @property
    def cost(self) -> float:
        return 50

    def say(self) -> str:
        return f"let {self.node_name} take new pods again"

    def on_node(self, node: Node) -> Node:
        return uncordoned(node)

    @property
    def command(self) -> str:
        return f"kubectl uncordon {self.node_name}"


@dataclass(frozen=True)
class EnableGate(Edit):
    """Turn a feature on in every component."""

    side: ClassVar[str] = "cluster"
    gate: str

    @property
    def cost(self) -> float:
        return 45

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
    if node.spec.unschedulable and (taint.key, taint.effect) == (UNSCHEDULABLE.key, UNSCHEDULABLE.effect):
        yield Uncordon(node.name)
    near = [a for a in reason.attempts if a.outcome not in (Outcome.OTHER_KEY, Outcome.OTHER_EFFECT)]
    distance = min((_distance(taint.value, a.toleration.value) for a in near), default=1.0)
    # The entry that came closest says how long this pod means to stay on such nodes.
    seconds = near[0].toleration.toleration_seconds if near and taint.effect == "NoExecute" else None
    exact = bool(taint.value) and not check_label_value(taint.value)
    operator, value = ("Equal", taint.value) if exact else ("Exists", "")
    yield AddToleration(Toleration(taint.key, operator, value, taint.effect, seconds), distance)
    for attempt in near:
        value = _moved(attempt.toleration.operator, taint.value)
        usable = attempt.outcome in (Outcome.NOT_GREATER, Outcome.NOT_LESS)
        if value and usable and attempt.toleration in pod.tolerations:
            index = pod.tolerations.index(attempt.toleration)
            yield ChangeThreshold(index, attempt.toleration, value, distance)
    for gate in {gate_of(a.toleration) for a in near if a.outcome is Outcome.GATE_OFF}:
        yield EnableGate(gate)
    yield RemoveTaint(node.name, taint)


def _distance(found: str, asked: str) -> float:
    """Return how far two values are apart, from 0 (equal) to 1 (not comparable, or very far)."""
    try:
        value, limit = parse_int64(found), parse_int64(asked)
    except IntegerError:
        version, wanted = find_tolerant(found), find_tolerant(asked)
        if version is None or wanted is None:
            return 1.0
        parts = zip(
            (version.major, version.minor, version.patch),
            (wanted.major, wanted.minor, wanted.patch),
            strict=True,
        )
        return next((share for share, (a, b) in zip((0.9, 0.5, 0.2), parts, strict=True) if a != b), 0.1)
    return min(abs(value - limit) / max(abs(limit), abs(value), 1), 1.0)


def _moved(operator: str, found: str) -> str:
    """Return the nearest threshold that *found* passes, or "" when there is none to write."""
    if operator in ("Gt", "Lt"):
        try:
            value = parse_int64(found) + (-1 if operator == "Gt" else 1)
            parse_int64(str(value))
        except IntegerError:
            return ""
        return str(value)
    version = find_tolerant(found)
    if version is None:
        return ""
    release = Version(version.major, version.minor, version.patch)
    if operator == "SemverLt":
        above = release if version.prerelease else Version(version.major, version.minor, version.patch + 1)
        return str(above) if version < above and find_tolerant(str(above)) is not None else ""
    if operator == "SemverGt":
        below = (
            Version(version.major, version.minor, version.patch - 1)
            if version.patch and not version.prerelease
            else Version(version.major, version.minor, version.patch, ((0, 0, ""),))
        )
        return _prefixed(str(below), found) if below < version else ""
    return found if operator == "SemverEq" else ""


def _prefixed(version: str, like: str) -> str:
    return f"v{version}" if like.startswith("v") else version


# ── labels ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ChangeSelector(Edit):
    """Ask for another value of a label, or for none."""

    key: str
    wanted: str
    value: str | None

    @property
    def cost(self) -> float:
        return 30 if self.value is not None else 35

    def say(self) -> str:
        if self.value is None:
            return f"remove {self.key}={self.wanted} from nodeSelector"
        return f"select {self.key}={self.value} instead of {self.wanted}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        selector = dict(spec.get("nodeSelector") or {})
        if self.value is None:
            selector.pop(self.key, None)
        else:
            selector[self.key] = self.value
        spec["nodeSelector"] = selector
        if not selector:
            del spec["nodeSelector"]


@dataclass(frozen=True)
class ChangeRequirement(Edit):
    """Ask something else of a label in a term of the required node affinity, or nothing (values None)."""

    term: int
    unmet: Unmet
    values: tuple[str, ...] | None

    @property
    def cost(self) -> float:
        if self.values is None:
            return 35
        return 25 + 5 * _distance(self.unmet.found or "", (self.unmet.requirement.values or ("",))[0])

    @property
    def order(self) -> tuple[int, ...]:
        return (1 if self.values is None else 0, -self.term, -self.unmet.index)

    def say(self) -> str:
        requirement = self.unmet.requirement
        what = "the node's name" if self.unmet.field == "matchFields" else f"the label {requirement.key}"
        if self.values is None:
            return f"no longer require {what}: {requires(requirement)}"
        after = requires(msgspec.structs.replace(requirement, values=self.values))
        return f"require {what}: {after}, instead of {requires(requirement)}"

    def on_pod(self, spec: dict[str, Any]) -> None:
        affinity = spec.get("affinity") or {}
        required = (affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}
        terms = required.get("nodeSelectorTerms") or []
        if self.term >= len(terms):
            return
        term = terms[self.term]
        entries = list(term.get(self.unmet.field) or ())
        if self.unmet.index >= len(entries):
            return
        if self.values is None:
            del entries[self.unmet.index]
        else:
            entries[self.unmet.index] = {**entries[self.unmet.index], "values": list(self.values)}
        term[self.unmet.field] = entries
        if not entries:
            del term[self.unmet.field]
        if not term.get("matchExpressions") and not term.get("matchFields"):
            # A term that asks nothing matches nothing: the affinity itself has to go.
            drop_required_affinity(spec)


@dataclass(frozen=True)
class DropAffinity(Edit):
    """Require no node affinity at all."""

    @property
    def cost(self) -> float:
        return 40

    def say(self) -> str:
        return "remove the required node affinity, which matches no node at all"

    def on_pod(self, spec: dict[str, Any]) -> None:
        drop_required_affinity(spec)


def drop_required_affinity(spec: dict[str, Any]) -> None:
    """Remove the required node affinity of a pod spec, and what is left empty by it."""
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    node_affinity.pop(REQUIRED, None)
    if not node_affinity:
        affinity.pop("nodeAffinity", None)
    if not affinity:
        spec.pop("affinity", None)


def for_term(term: UnmetTerm) -> list[Edit]:
    """Return the edits that together make one term select the node."""
    return [_for_requirement(term.index, unmet) for unmet in term.unmet]


def _for_requirement(term: int, unmet: Unmet) -> Edit:
    requirement, found = unmet.requirement, unmet.found
    values: tuple[str, ...] | None = None
    match requirement.operator, unmet.match:
        case "In", Match.OTHER_VALUE if found is not None and not check_label_value(found):
            # matchFields takes exactly one name.
            values = (found,) if unmet.field == "matchFields" else (*(requirement.values or ()), found)
        case "NotIn", Match.EXCLUDED_VALUE:
            values = tuple(value for value in requirement.values or () if value != found) or None
        case operator, Match.NOT_GREATER | Match.NOT_LESS | Match.OTHER_VALUE if found is not None:
            moved = _moved(operator, found)
            # Affinity's own integers are label values, so a negative threshold cannot be written.
            values = (moved,) if moved and not moved.startswith("-") else None
    return ChangeRequirement(term, unmet, values)


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


# ── room ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LowerRequest(Edit):
    """Ask for less of one resource, in the containers that ask for most."""

    resource: str
    before: int
    after: int
    containers: tuple[tuple[str, int, str, int], ...]  #: (list, index, name, new amount)
    pod_level: int | None = None

    @property
    def cost(self) -> float:
        if any(amount == 0 for *_, amount in self.containers):
            return 70
        return 20 + 30 * (self.before - self.after) / max(self.before, 1)

    def say(self) -> str:
        def show(amount: int) -> str:
            return show_amount(self.resource, amount)

        if not self.containers:
            return f"request {show(self.after)} of {self.resource} for the pod instead of {show(self.before)}"
        parts = [f"{show(amount)} in {name}" for _, _, name, amount in self.containers]
        return f"request less {self.resource}: {', '.join(parts)} ({show(self.after)} instead of {show(self.before)})"

    def on_pod(self, spec: dict[str, Any]) -> None:
        for where, index, _, amount in self.containers:
            entries = list(spec.get(where) or ())
            if index < len(entries):
                container = dict(entries[index])
                container["resources"] = self._resources(container.get("resources"), amount)
                entries[index] = container
            spec[where] = entries
        if self.pod_level is not None:
            spec["resources"] = self._resources(spec.get("resources"), self.pod_level)

    def _resources(self, present: Any, amount: int) -> dict[str, Any]:
        text = show_amount(self.resource, amount)
        resources: dict[str, Any] = dict(present or {})
        if _fixed(self.resource):
            # Extended resources and hugepages allow no difference between request and limit.
            for part in ("requests", "limits"):
                if self.resource in (resources.get(part) or {}):
                    resources[part] = {**resources[part], self.resource: text}
        else:
            resources["requests"] = {**(resources.get("requests") or {}), self.resource: text}
        return resources


def _fixed(resource: str) -> bool:
    return "/" in resource or resource.startswith("hugepages-")


def for_shortage(reason: TooFew, pod: Pod) -> Iterator[Edit]:
    """Yield the lowering that lets the pod into what is free, if anything is."""
    resource, spec = reason.resource, pod.spec
    overhead = reason.requested - _without_overhead(pod, reason)
    budget = _round_down(resource, reason.free - overhead)
    if budget < 0:
        return
    running = [("containers", i, c) for i, c in enumerate(spec.containers)]
    initial = [("initContainers", i, c) for i, c in enumerate(spec.init_containers or ())]
    running += [entry for entry in initial if restarts(entry[2])]
    wants = {(w, i): container_requests(c).get(resource, 0) for w, i, c in (*running, *initial)}
    cap = _level([wants[w, i] for w, i, _ in running], budget, resource)
    lowered: dict[tuple[str, int], int] = {(w, i): cap for w, i, _ in running if wants[w, i] > cap}
    beside = 0
    for where, index, container in initial:
        amount = lowered.get((where, index), wants[where, index])
        if restarts(container):
            beside += amount
        elif amount + beside > budget:
            if budget < beside:
                return
            lowered[where, index] = _round_down(resource, budget - beside)
    names = {(w, i): c.name or f"{w}[{i}]" for w, i, c in (*running, *initial)}
    pod_level = spec.resources is not None and (
        resource in (spec.resources.requests or {}) or resource in (spec.resources.limits or {})
    )
    if lowered or pod_level:
        settings = tuple((w, i, names[w, i], amount) for (w, i), amount in lowered.items())
        yield LowerRequest(
            resource, reason.requested, budget + overhead, settings, budget if pod_level else None
        )


def _without_overhead(pod: Pod, reason: TooFew) -> int:
    bare = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, overhead=None))
    return pod_requests(bare).get(reason.resource, 0)


def _round_down(resource: str, amount: int) -> int:
    """Return *amount* without what nobody would write: bytes below one Mi, when a Mi is left."""
    coarse = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return amount >> 20 << 20 if coarse and amount >= 1 << 20 else amount


def _level(wants: list[int], budget: int, resource: str) -> int:
    """Return the amount to which the largest of *wants* are lowered so that all fit into *budget*."""
    remaining, ordered = budget, sorted(wants)
    for position, want in enumerate(ordered):
        share = remaining // (len(ordered) - position)
        if want > share:
            return _round_down(resource, share)
        remaining -= want
    return max(ordered, default=0)


# ── one reason ───────────────────────────────────────────────────────────────────────────────────


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
