"""Search for the smallest proven change that lets the pod run.

For every group of equal nodes the edits for each of its reasons are combined, and combinations are tried from the
cheapest. A change is made on a copy of what was written, admitted as the API server would, and evaluated by the
scheduler's engine: only one after which some node accepts the pod is proposed. Finally parts that are not needed are
dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain, combinations, islice, product
from typing import Any, Final

from weir.explain.admission import Admission
from weir.explain.edits import GATES_OPTION, DropPreferences, Edit, answers, cost_of
from weir.explain.engine import JudgeFor
from weir.explain.subject import Subject
from weir.explain.verdict import Group, NodeVerdict
from weir.gates import Gates
from weir.objects.core import Node, Pod
from weir.scheduler.reasons import Reason, UnreadablePreference
from weir.world import World

#: How many candidates are tried before giving up, and up to how many edits every part is tried.
_MOST_CANDIDATES: Final = 120
_MOST_EDITS_IN_FULL: Final = 10
_SMALL_PART: Final = 2
_MOST_ALTERNATIVES: Final = 3
#: Of the combinations of answers for one group of nodes, how many are made and how many kept.
_MOST_COMBINED: Final = 2000
_MOST_OF_GROUP: Final = 40

Edits = tuple[Edit, ...]


@dataclass(frozen=True)
class Fix:
    """A change that was tried and helps, and the nodes that would take the pod after it."""

    edits: Edits
    nodes: tuple[str, ...]
    patch: dict[str, Any]  #: merge patch (RFC 7386) for the document; empty when only others change
    after: Mapping[str, Any]  #: the document with the change made
    alternatives: tuple[Edits, ...] = ()
    #: merge patches of other objects, which name them, each with the object as it is; None for new objects
    others: tuple[tuple[dict[str, Any], dict[str, Any] | None], ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands for the edits that a patch of the document cannot make."""
        commands = [edit.command for edit in self.edits if edit.command]
        gates = [each.removeprefix(GATES_OPTION) for each in commands if each.startswith(GATES_OPTION)]
        others = [each for each in commands if not each.startswith(GATES_OPTION)]
        return (*others, *([GATES_OPTION + ",".join(gates)] if gates else []))


@dataclass
class Case:
    """One question that can be evaluated again with edits applied."""

    subject: Subject
    pod: Pod
    world: World
    gates: Gates
    groups: Sequence[Group]
    blockers: Sequence[Reason]
    judge: JudgeFor
    undecided: UnreadablePreference | None = None  #: what breaks the attempt as soon as several nodes fit
    _plans: dict[int, list[tuple[float, Edits]]] = field(default_factory=dict)
    _tried: dict[Edits, tuple[str, ...]] = field(default_factory=dict)

    def after(self, edits: Edits) -> tuple[str, ...]:
        """Return the nodes that take the pod once *edits* are made; the pod is admitted and judged anew."""
        if edits not in self._tried:
            names = tuple(self._taking(edits))
            if self.undecided is not None and not any(isinstance(edit, DropPreferences) for edit in edits):
                names = names if len(names) == 1 else ()
            self._tried[edits] = names
        return self._tried[edits]

    def _taking(self, edits: Edits) -> Iterator[str]:
        subject, gates, world = apply(self.subject, edits), self.gates, self.world
        for edit in edits:
            gates = edit.on_gates(gates)
            world = edit.on_world(world)
        admitted = Admission(world, gates).admit(subject)
        if admitted.refused:
            return
        judge = self.judge(admitted.pod, world, gates)
        if judge.blockers():
            return
        changed = {edit.node for edit in edits if edit.node}
        fitting = judge.fitting()
        for name, node in self.world.nodes.items():
            if (
                judge(changed_node(node, edits)).fits if name in changed else name in fitting
            ):  # a changed node is evaluated alone
                yield name

    def helps(self, edits: Edits) -> bool:
        return bool(self.after(edits))

    # ── candidates ──

    def plan(self, group: Group) -> list[tuple[float, Edits]]:
        """Return the answers to everything the group's closest node says, cheapest first; empty: there is none."""
        key = id(group)
        if key not in self._plans:
            choices = self.choices(group.verdict)
            combined = islice(product(*choices), _MOST_COMBINED) if all(choices) else ()
            different = {frozenset(each): each for each in map(_together, combined)}.values()
            costs = [(cost_of(edits), edits) for edits in different]
            self._plans[key] = nsmallest(_MOST_OF_GROUP, costs, key=lambda plan: plan[0])
        return self._plans[key]

    def choices(self, verdict: NodeVerdict) -> list[list[Edits]]:
        """Return what would answer each reason of a node, and each of the pod itself."""
        node = self.world.nodes[verdict.node]
        _, written = self.subject.edited()
        undecided = (self.undecided,) if self.undecided else ()
        return [
            answers(reason, node, self.pod, self.world, self.gates, written)
            for reason in (*self.blockers, *undecided, *verdict.reasons)
        ]

    def smallest(self, edits: Edits) -> Edits:
        """Return the smallest part of *edits* that still helps; *edits* itself when every part is needed.

        Parts of one or two edits are tried first; else edits are left out one after the other as long as the rest
        helps, and at last every part of what is left is tried: every part of ten is 1,023 questions.
        """
        few = len(edits) <= _MOST_EDITS_IN_FULL
        small = _parts(edits, range(min(len(edits), _SMALL_PART + 1))) if few else ()
        fewer_by_one = (edits[:index] + edits[index + 1 :] for index in range(len(edits)))
        between = _parts(edits, range(_SMALL_PART + 1, len(edits) - 1)) if few else ()
        part = next(filter(self.helps, chain(small, fewer_by_one, between)), None)
        return edits if part is None else self.smallest(part)


def _parts(edits: Edits, sizes: Iterable[int]) -> Iterator[Edits]:
    return chain.from_iterable(combinations(edits, size) for size in sizes)


def _together(choice: Sequence[Edits]) -> Edits:
    return tuple(dict.fromkeys(edit for edits in choice for edit in edits))


def find_fix(case: Case) -> Fix | None:
    """Return the smallest change that helps, or None when nothing weir can propose does."""
    concerned = [g for g in case.groups if g.verdict.reasons or case.blockers or case.undecided]
    plans = [(*plan, group) for group in concerned for plan in case.plan(group)]
    plans.sort(key=lambda plan: (plan[0], -len(plan[2].nodes), plan[2].verdict.node))
    for _, edits, group in plans[:_MOST_CANDIDATES]:
        if case.helps(edits):
            part = case.smallest(edits)
            after = apply(case.subject, part).document
            others = [
                (other, None if edit.manifest else edit.original(case.world))
                for edit in part
                if (other := edit.manifest or edit.patch(case.world))
            ]
            return Fix(
                part,
                case.after(part),
                merge_patch(case.subject.document, after),
                after,
                tuple(_alternatives(case, part, group)),
                tuple(others),
            )
    return None


def _alternatives(case: Case, edits: Edits, group: Group) -> Iterator[Edits]:
    """Yield other changes for the same nodes, each tried, none of them one that is enough and more besides."""
    distinct = [edits]
    for _, other in case.plan(group)[: 4 * _MOST_ALTERNATIVES]:
        if len(distinct) > _MOST_ALTERNATIVES:
            return
        if not _includes(other, edits) and case.helps(other):
            part = case.smallest(other)
            if not any(_includes(part, each) for each in distinct):
                distinct.append(part)
                yield part


def _includes(edits: Edits, others: Edits) -> bool:
    return all(any(edit.includes(other) for edit in edits) for other in others)


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
