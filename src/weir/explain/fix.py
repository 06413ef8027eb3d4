"""What is the smallest change that would let the pod run? Found, proven, and no part of it enough alone.

For every group of equal nodes the cheapest edit for each of its reasons is collected; the cheapest collection
wins. It is then made, on a copy, and the whole question asked again: only a change after which some node takes
the pod is proposed. Last, every part of it is tried: if fewer edits are enough, those are proposed instead.
Not here: the edits and their costs (weir.explain.edits).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from weir.explain.admission import Admission
from weir.explain.edits import (
    GATES_OPTION,
    AddDeviceToleration,
    AddToleration,
    ChangeRequirement,
    ChangeSelector,
    ChangeThreshold,
    ClearNodeName,
    DropAffinity,
    DropPreferences,
    Edit,
    EnableGate,
    LowerRequest,
    RemoveRule,
    RemoveTaint,
    Uncordon,
    Ungate,
    answers,
)
from weir.explain.engine import JudgeFor
from weir.explain.reasons import Gated, Refused
from weir.explain.subject import Subject
from weir.explain.verdict import Group, NodeVerdict
from weir.gates import Gates
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
from weir.world import World

#: How many candidates are tried before giving up, and up to how many edits every part is tried.
_MOST_CANDIDATES: Final = 50
_MOST_EDITS_IN_FULL: Final = 10
_MOST_ALTERNATIVES: Final = 3

Edits = tuple[Edit, ...]


@dataclass(frozen=True)
class Fix:
    """A change that was tried and helps, and the nodes that would take the pod after it."""

    edits: Edits
    nodes: tuple[str, ...]
    patch: dict[str, Any]  #: merge patch (RFC 7386) for the document; empty when only others change
    alternatives: tuple[Edits, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands for the edits that a patch of the document cannot make."""
        commands = [edit.command for edit in self.edits if edit.command]
        gates = [each.removeprefix(GATES_OPTION) for each in commands if each.startswith(GATES_OPTION)]
        others = [each for each in commands if not each.startswith(GATES_OPTION)]
        return (*others, *([GATES_OPTION + ",".join(gates)] if gates else []))


@dataclass
class Case:
    """One question that can be asked again with edits made."""

    subject: Subject
    pod: Pod
    world: World
    gates: Gates
    groups: Sequence[Group]
    blockers: Sequence[Reason]
    judge: JudgeFor
    undecided: UnreadablePreference | None = None  #: what breaks the attempt as soon as several nodes fit
    _plans: dict[int, tuple[float, Edits, list[list[Edits]]]] = field(default_factory=dict)

    def after(self, edits: Edits) -> Iterator[str]:
        """Yield the nodes that take the pod once *edits* are made; the pod is judged anew."""
        names = self._taking(edits)
        if self.undecided is not None and not any(isinstance(edit, DropPreferences) for edit in edits):
            found = list(names)
            names = iter(found if len(found) == 1 else ())
        yield from names

    def _taking(self, edits: Edits) -> Iterator[str]:
        if not all(_touched(reason, edits) for reason in self.blockers):
            return
        candidates = [g for g in self.groups if all(_touched(r, edits) for r in g.verdict.reasons)]
        if not candidates:
            return
        subject, gates = apply(self.subject, edits), self.gates
        for edit in edits:
            gates = edit.on_gates(gates)
        world = self.world
        for edit in edits:
            world = edit.on_world(world)
        admitted = Admission(world, gates).admit(subject)
        if admitted.refused:
            return
        pod = admitted.pod
        judge = self.judge(pod, world, gates)
        if judge.blockers():
            return
        for group in candidates:
            for name in group.nodes:
                if not all(_touched(reason, edits, name) for reason in group.verdict.reasons):
                    continue
                if judge(changed_node(self.world.nodes[name], edits)).fits:
                    yield name

    def helps(self, edits: Edits) -> bool:
        return next(self.after(edits), None) is not None

    # ── candidates ──

    def plan(self, group: Group) -> tuple[float, Edits, list[list[Edits]]]:
        """Return cost and edits of the cheapest answer to everything the group's closest node says."""
        key = id(group)
        if key not in self._plans:
            self._plans[key] = self._plan(group.verdict)
        return self._plans[key]

    def _plan(self, verdict: NodeVerdict) -> tuple[float, Edits, list[list[Edits]]]:
        node = self.world.nodes[verdict.node]
        choices = [
            answers(reason, node, self.pod, self.gates)
            for reason in (*self.blockers, *((self.undecided,) if self.undecided else ()), *verdict.reasons)
        ]
        if not all(choices):
            return float("inf"), (), choices
        edits = tuple(dict.fromkeys(edit for choice in choices for edit in choice[0]))
        return sum(edit.cost for edit in edits), edits, choices

    def smallest(self, edits: Edits) -> Edits:
        """Return the smallest part of *edits* that still helps; *edits* itself when every part is needed."""
        if len(edits) <= _MOST_EDITS_IN_FULL:
            for size in range(len(edits)):
                for part in combinations(edits, size):
                    if self.helps(part):
                        return part
            return edits
        for index in range(len(edits)):
            part = edits[:index] + edits[index + 1 :]
            if self.helps(part):
                return self.smallest(part)
        return edits


def find_fix(case: Case) -> Fix | None:
    """Return the smallest change that helps, or None when nothing weir can propose does."""
    plans = sorted(
        (
            (*case.plan(group)[:2], group)
            for group in case.groups
            if group.verdict.reasons or case.blockers or case.undecided
        ),
        key=lambda plan: (plan[0], -len(plan[2].nodes), plan[2].verdict.node),
    )
    for cost, edits, group in plans[:_MOST_CANDIDATES]:
        if cost == float("inf"):
            break
        if not case.helps(edits):
            continue
        part = case.smallest(edits)
        patch = merge_patch(case.subject.document, apply(case.subject, part).document)
        return Fix(part, tuple(case.after(part)), patch, tuple(_alternatives(case, part, group)))
    return None


def _alternatives(case: Case, edits: Edits, group: Group) -> Iterator[Edits]:
    """Yield other changes for the same node, each tried: one answer exchanged for another."""
    choices = case.plan(group)[2]
    found = 0
    for choice in choices:
        for other in choice[1:]:
            rest = tuple(edit for edit in edits if edit not in choice[0])
            exchanged = tuple(dict.fromkeys((*rest, *other)))
            if len(rest) < len(edits) and found < _MOST_ALTERNATIVES and case.helps(exchanged):
                found += 1
                yield exchanged


def _touched(reason: Reason, edits: Edits, node: str = "") -> bool:
    """Return whether one of *edits* could answer *reason*; False only when none can.

    Saves judging nodes that a change cannot concern. With *node*, edits of other nodes do not count.
    """
    return any(_touches(edit, reason) for edit in edits if not (node and edit.node and edit.node != node))


def _touches(edit: Edit, reason: Reason) -> bool:
    match edit, reason:
        case AddToleration(), UntoleratedTaint(taint):
            wanted = edit.toleration
            return (wanted.key, wanted.effect) == (taint.key, taint.effect)
        case AddToleration(), Cordoned():
            return True
        case ((ChangeThreshold() | RemoveTaint() | Uncordon() | EnableGate()), UntoleratedTaint()):
            return True
        case Uncordon(), Cordoned():
            return True
        case _, Refused():
            return True  # taking away what is refused helps as well as allowing it
        case EnableGate(), (UnmetAffinity() | Cordoned()):
            return True
        case ChangeSelector(), WrongLabel():
            return edit.key == reason.key
        case ((ChangeRequirement() | DropAffinity()), UnmetAffinity()):
            return True
        case LowerRequest(), TooFew():
            return edit.resource == reason.resource
        case (ClearNodeName(), OtherNode()) | (Ungate(), Gated()):
            return True
        case ((AddDeviceToleration() | RemoveRule()), NoDevices()) | (RemoveRule(), ClaimTied()):
            return True
    return False


# ── making changes ───────────────────────────────────────────────────────────────────────────────


def apply(subject: Subject, edits: Edits) -> Subject:
    """Return *subject* with the pod-side *edits* made in a copy of its document."""
    edited, spec = subject.edited()
    for edit in sorted(edits, key=lambda edit: edit.order):
        edit.on_pod(spec)
    return edited


def changed_node(node: Node, edits: Edits) -> Node:
    """Return *node* with the edits that concern it made."""
    for edit in edits:
        if edit.node == node.name:
            node = edit.on_node(node)
    return node


def merge_patch(before: Any, after: Any) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) that turns *before* into *after*: lists whole, null removes.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 5}})
    {'b': {'c': 5, 'd': None}}
    """
    patch: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif key not in before or value != old:
            patch[key] = value
    patch.update({key: None for key in before if key not in after})
    return patch
