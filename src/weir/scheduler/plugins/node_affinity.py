"""NodeAffinity: nodes must match the pod's nodeSelector and required node affinity; preferred terms score.

Spec: core.md 3.7.4; KEP-5721 "Node Affinity Logic". Each requirement is evaluated once per distinct label value, by
the same `match_requirement` that lint and explain use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from weir.gates import Gates
from weir.objects.core import (
    NodeAffinity as NodeAffinityView,
)
from weir.objects.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)
from weir.scheduler.framework import (
    Code,
    Extensions,
    FilterPlugin,
    Normalize,
    Plugin,
    PreFilterPlugin,
    Scope,
    ScorePlugin,
    Status,
)
from weir.scheduler.node_columns import Bools, Ids, LabelColumn
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import NODE_ADD, NODE_LABEL, ClusterEvent, QueueingHint
from weir.scheduler.reasons import (
    Reason,
    Unmet,
    UnmetAffinity,
    UnmetProfileAffinity,
    UnmetTerm,
    UnreadablePreference,
    WrongLabel,
)
from weir.selectors.node import (
    NODE_NAME_FIELD,
    match_field,
    match_requirement,
    match_term,
    pod_selects_node,
    preferred_terms,
    required_selector,
)
from weir.taints.operators import INTEGERS, find_in_affinity

NAME: Final = "NodeAffinity"
_REJECTED: Final = Status(Code.UNRESOLVABLE, (WrongLabel.words,), NAME)
_ENFORCED: Final = Status(Code.UNRESOLVABLE, (UnmetProfileAffinity.words,), NAME)
_CONFLICT: Final = Status(Code.UNRESOLVABLE, ("pod affinity terms conflict",), NAME)


class NodeAffinity(Plugin):
    """The plugin; `added` is the profile's own affinity, which every node must match as well."""

    name = NAME

    def __init__(self, table: NodeTable, gates: Gates, added: NodeAffinityView | None = None) -> None:
        self._table, self._gates, self._added = table, gates, added

    def for_class(self, pod: PodClass) -> Extensions:
        bound = BoundNodeAffinity(pod, self._table, self._gates, self._added)
        names = bound.node_names()
        return Extensions(
            pre_filter=_Conflict() if names is not None and not names else None,
            node_names=names or None,
            filter=bound if bound.filters else None,
            pre_score=unreadable_preferences(pod.pod),
            score=bound if bound.scores else None,
        )

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {NODE_ADD: self._now_selected, NODE_LABEL: self._now_selected}

    def _now_selected(self, pod: Pod, event: ClusterEvent) -> bool:
        if not pod_selects_node(pod, event.new.labels, event.new.name, self._gates):
            return False
        return event.old is None or not pod_selects_node(pod, event.old.labels, event.old.name, self._gates)


class _Conflict(PreFilterPlugin):
    """A pod whose required terms name nodes, and no node that all of one term's fields name."""

    name = NAME

    def pre_filter(self) -> Status:
        return _CONFLICT


class BoundNodeAffinity(FilterPlugin, ScorePlugin):
    name = NAME
    scope = Scope.NODE
    normalize = Normalize.HIGHEST

    def __init__(self, pod: PodClass, table: NodeTable, gates: Gates, added: NodeAffinityView | None) -> None:
        self._columns, self._gates = LabelJudge(table, gates), gates
        self._wanted = pod.pod.spec.node_selector or {}
        self._required = required_selector(pod.pod)
        self._added = added.required if added else None
        self._preferred: tuple[PreferredSchedulingTerm, ...] = tuple(
            term
            for term in (*preferred_terms(pod.pod), *((added.preferred or ()) if added else ()))
            if term.weight and (term.preference.match_expressions or term.preference.match_fields)
        )

    @property
    def filters(self) -> bool:
        """Whether any node could be refused."""
        return bool(self._wanted) or self._required is not None or self._added is not None

    @property
    def scores(self) -> bool:
        """Whether any node could be preferred."""
        return bool(self._preferred)

    def node_names(self) -> frozenset[str] | None:
        """PreFilter: the nodes worth looking at when every term names some; None when one term does not."""
        if self._required is None or not self._required.node_selector_terms:
            return None
        union: set[str] = set()
        for term in self._required.node_selector_terms:
            named = [
                set(field.values or ())
                for field in term.match_fields or ()
                if field.key == NODE_NAME_FIELD and field.operator == "In"
            ]
            if not named:
                return None
            union |= set.intersection(*named)
        return frozenset(union)

    def codes(self, rows: Any) -> Ids:
        """Return 0 for nodes that match, 1 for those the pod refuses, 2 for those the profile refuses."""
        codes = np.zeros(len(self._columns.table.alive[rows]), np.int32)
        for key, value in self._wanted.items():
            codes[~self._columns.equals(key, value, rows)] = 1
        if self._required is not None:
            codes[~self._columns.selects(self._required, rows)] = 1
        if self._added is not None:
            codes[~self._columns.selects(self._added, rows)] = 2  # evaluated first, so its reason is reported
        return codes

    def score(self, rows: Any) -> Ids:
        """Return the summed weight of the preferred terms each node matches."""
        total = np.zeros(len(self._columns.table.alive[rows]), np.int32)
        for term in self._preferred:
            total[self._columns.matches(term.preference, rows)] += term.weight
        return total

    def status(self, code: int) -> Status:
        return _ENFORCED if code == 2 else _REJECTED

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return every entry of nodeSelector that does not match, and what each affinity term lacks."""
        node = self._columns.table.nodes[row]
        assert node is not None
        found: list[Reason] = [UnmetProfileAffinity()] if code == 2 else []
        for key, wanted in self._wanted.items():
            if (value := node.labels.get(key)) != wanted:
                found.append(WrongLabel(key, wanted, value))
        if self._required is not None:
            terms = unmet_terms(self._required, node.labels, node.name, self._gates)
            if terms is not None:
                found.append(UnmetAffinity(terms))
        return tuple(found)


def unmet_terms(
    selector: NodeSelector, labels: Mapping[str, str], node_name: str | None, gates: Gates
) -> tuple[UnmetTerm, ...] | None:
    """Return what each term of *selector* lacks, or None when one of them selects the node."""
    found: list[UnmetTerm] = []
    for index, term in enumerate(selector.node_selector_terms or ()):
        expressions = len(term.match_expressions or ())
        unmet = []
        for position, (requirement, match) in enumerate(match_term(term, labels, node_name, gates)):
            if match:
                continue
            if position < expressions:
                value = labels.get(requirement.key)
                unmet.append(Unmet("matchExpressions", position, requirement, match, value))
            else:
                unmet.append(Unmet("matchFields", position - expressions, requirement, match, node_name))
        if not unmet and (term.match_expressions or term.match_fields):
            return None
        found.append(UnmetTerm(index, tuple(unmet)))
    return tuple(found)


def unreadable_preferences(pod: Pod) -> str:
    """Return why the preferred terms of *pod* cannot be read, or "" when they can.

    A required term that cannot be read matches nothing; a preferred one breaks the attempt, as in Kubernetes.
    """
    found = dict.fromkeys(
        f"[{number}].matchExpressions[{place}].values[{at}]: Invalid value: {msgspec.json.encode(value).decode()}: "
        "for 'Gt', 'Lt' operators, the value must be an integer"
        for number, term in enumerate(preferred_terms(pod))
        if term.weight
        for place, requirement in enumerate(term.preference.match_expressions or ())
        if _compares_integers(requirement)
        for at, value in enumerate(requirement.values or ())
        if not _is_integer(value)
    )
    return ", ".join(found) if len(found) < 2 else f"[{', '.join(found)}]"


def unreadable_preference(pod: Pod) -> UnreadablePreference | None:
    """Return the preferred terms that break the attempt once it has to choose between nodes, or None."""
    text = unreadable_preferences(pod)
    if not text:
        return None
    found = {
        number: tuple(each for each in term.preference.match_expressions or () if unreadable(each))
        for number, term in enumerate(preferred_terms(pod))
        if term.weight
    }
    terms = tuple(number for number, requirements in found.items() if requirements)
    return UnreadablePreference(text, terms, tuple(each for number in terms for each in found[number]))


def unreadable(requirement: NodeSelectorRequirement) -> bool:
    """Return whether *requirement* compares with something that is no integer."""
    return _compares_integers(requirement) and not all(map(_is_integer, requirement.values or ()))


def _compares_integers(requirement: NodeSelectorRequirement) -> bool:
    comparison = find_in_affinity(requirement.operator)
    return comparison is not None and comparison.scale is INTEGERS


def _is_integer(text: str) -> bool:
    return INTEGERS.parse_label(text) is not None


_MOST_ANSWERS: Final = 4096


class LabelJudge:
    """Evaluates node selector requirements on label columns, once per distinct value.

    Optimized form of weir.selectors.node.match_requirement, called per node in tests/reference/scheduler.py;
    tests/property/test_scheduler.py compares them; bench: `python -m bench scheduler`.
    """

    def __init__(self, table: NodeTable, gates: Gates) -> None:
        self.table, self._gates = table, gates
        #: by the requirement's id: the requirement, which column and generation the answers are for, the answers
        self._answers: dict[int, tuple[NodeSelectorRequirement, LabelColumn, int, list[bool]]] = {}

    def equals(self, key: str, value: str, rows: Any) -> Bools:
        """Return where the label *key* has exactly *value*."""
        column = self.table.label(key)
        number = column.numbers.get(value, -2)
        found: Bools = column.ids[rows] == number
        return found

    def selects(self, selector: NodeSelector, rows: Any) -> Bools:
        """Return where some term of *selector* matches."""
        found: Bools = np.zeros(len(self.table.alive[rows]), np.bool_)
        for term in selector.node_selector_terms or ():
            found |= self.matches(term, rows)
        return found

    def matches(self, term: NodeSelectorTerm, rows: Any, *, fields: bool = True) -> Bools:
        """Return where every requirement of *term* is met; a term that asks nothing is met nowhere."""
        count = len(self.table.alive[rows])
        if not term.match_expressions and not term.match_fields:
            return np.zeros(count, np.bool_)
        found: Bools = np.ones(count, np.bool_)
        for requirement in term.match_expressions or ():
            found &= self._requirement(requirement, rows)
        for requirement in (term.match_fields or ()) if fields else ():
            found &= self._field(requirement, rows)
        return found

    def _requirement(self, requirement: NodeSelectorRequirement, rows: Any) -> Bools:
        column = self.table.label(requirement.key)
        if requirement.operator == "In" and len(column.values) > len(requirement.values or ()):
            # Keys with many values, such as node names: look up the requested values instead of evaluating all.
            asked = [value for value in requirement.values or () if value in column.numbers]
            meant = [
                column.numbers[value]
                for value in asked
                if match_requirement(requirement, {requirement.key: value}, self._gates)
            ]
            there: Bools = np.isin(column.ids[rows], meant)
            return there
        known = self._answers.get(id(requirement))
        if known is None or known[1] is not column or known[2] != column.generation:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()  # requirements of volumes that are gone, for example
            absent = bool(match_requirement(requirement, {}, self._gates))
            known = self._answers[id(requirement)] = (requirement, column, column.generation, [absent])
        answers = known[3]
        # The first answer is for nodes without the label, whose number is -1.
        for value in column.values[len(answers) - 1 :]:
            answers.append(bool(match_requirement(requirement, {requirement.key: value}, self._gates)))
        found: Bools = np.asarray(answers, np.bool_)[column.ids[rows] + 1]
        return found

    def _field(self, requirement: NodeSelectorRequirement, rows: Any) -> Bools:
        named: Sequence[str] = requirement.values or ()
        elsewhere = bool(match_field(requirement, ""))
        found: Bools = np.full(len(self.table.alive), elsewhere, np.bool_)
        for name in named:
            row = self.table.row_of.get(name)
            if row is not None:
                found[row] = bool(match_field(requirement, name))
        return found[rows]
