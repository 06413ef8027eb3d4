"""Pod counts per node and selector or affinity term.

For PodTopologySpread and InterPodAffinity. A count changes by one when a pod is added or removed; a pod class knows
the counts it belongs to, so other selectors cost nothing. Sums per zone are computed on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from weir.objects.core import LabelSelector, LabelSelectorRequirement, PodAffinityTerm
from weir.scheduler.node_columns import Bools, Ids, Ints, LabelColumn
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.selectors.labels import Selector, SelectorError, from_object

#: Namespace → its labels; affinity terms may select namespaces by them.
Namespaces = Mapping[str, Mapping[str, str]]


def read_selector(selector: LabelSelector | None) -> Selector | None:
    """Return *selector* ready to match; None, like one that cannot be read, selects nothing."""
    if selector is None:
        return None
    try:
        return from_object(msgspec.to_builtins(selector))
    except SelectorError:
        return None


@dataclass(frozen=True)
class Term:
    """One pod (anti-)affinity term as its owner means it: which pods, and within which topology."""

    key: Hashable
    topology_key: str
    namespaces: frozenset[str] | None  #: None: every namespace
    selector: Selector | None

    def selects(self, pod: PodClass) -> bool:
        """Return whether the term speaks of *pod*."""
        if self.selector is None or (self.namespaces is not None and pod.namespace not in self.namespaces):
            return False
        return self.selector.matches(pod.labels)


def read_term(term: PodAffinityTerm, owner: PodClass, namespaces: Namespaces) -> Term:
    """Return *term* of *owner*, with its namespaces and label keys worked out."""
    named: frozenset[str] | None = frozenset(term.namespaces or ())
    if term.namespace_selector is not None:
        chosen = read_selector(term.namespace_selector)
        if chosen is not None and not chosen:
            named = None
        elif chosen is not None and named is not None:
            named |= {name for name, labels in namespaces.items() if chosen.matches(labels)}
    elif not named:
        named = frozenset({owner.namespace})
    selector = _with_label_keys(term, owner)
    key = (
        term.topology_key,
        tuple(sorted(named)) if named is not None else None,
        msgspec.json.encode(selector, order="sorted") if selector is not None else None,
    )
    return Term(key, term.topology_key, named, read_selector(selector))


def _with_label_keys(term: PodAffinityTerm, owner: PodClass) -> LabelSelector | None:
    """Return the term's selector with matchLabelKeys and mismatchLabelKeys added from the owner's labels."""
    selector = term.label_selector
    if selector is None or not (term.match_label_keys or term.mismatch_label_keys):
        return selector
    added = [
        LabelSelectorRequirement(key, operator, (owner.labels[key],))
        for keys, operator in ((term.match_label_keys, "In"), (term.mismatch_label_keys, "NotIn"))
        for key in keys or ()
        if key in owner.labels
    ]
    present = set(selector.match_expressions or ())
    missing = tuple(requirement for requirement in added if requirement not in present)
    return LabelSelector(selector.match_labels, (*(selector.match_expressions or ()), *missing))


#: Whether pods of a class are counted.
Selects = Callable[[PodClass], bool]
#: So many classes, or terms that no pod carries any more, are kept before they are looked through.
_LEAST_KEPT: Final = 1024
_MOST_SUMS: Final = 64


class PodCount:
    """Pods by row, and by the value of a label: sums over domains are kept as pods come and go."""

    __slots__ = ("__weakref__", "_sums", "rows", "selects", "total")

    def __init__(self, size: int, selects: Selects | None = None) -> None:
        self.selects = selects  #: which pods are counted; None: those that carry a term
        self.rows: Ids = np.zeros(size, np.int32)
        self.total = 0
        #: by label, and by the rows that count
        self._sums: dict[tuple[str, int], tuple[tuple[int, int], LabelColumn, Ints, Bools | None]] = {}

    def move(self, row: int, sign: int, table: NodeTable) -> None:
        """Count one pod more or less on *row*."""
        if row >= len(self.rows):
            self._grow(table)
        self.rows[row] += sign
        self.total += sign
        for version, column, sums, among in self._sums.values():
            # older sums are recomputed on demand
            if version == table.nodes_version and (among is None or among[row]):
                sums[column.ids[row]] += sign
                sums[-1] = 0  # nodes without the label end up here

    def by_label(self, key: str, table: NodeTable, among: Bools | None = None) -> Ints:
        """Return the pods counted on all nodes with each value of the label *key*, 0 in the last place.

        Only the rows *among* count, if they are given; the same array stands for the same rows until a node changes.
        """
        version = table.nodes_version
        known = self._sums.get((key, id(among)))
        if known is not None and known[0] == version:
            return known[2]
        column = table.label(key)
        rows = self.on_rows(table)
        counted = rows.nonzero()[0] if among is None else (among & (rows != 0)).nonzero()[0]
        sums = np.zeros(len(column.values) + 1, np.int64)
        np.add.at(sums, column.ids[counted], rows[counted])
        sums[-1] = 0  # nodes without the label end up here
        self._sums = {each: kept for each, kept in self._sums.items() if kept[0] == version}
        if len(self._sums) >= _MOST_SUMS:
            self._sums.clear()  # topology keys are the pods' to choose
        self._sums[key, id(among)] = (version, column, sums, among)
        return sums

    def on_rows(self, table: NodeTable) -> Ids:
        """Return the count of every row in use."""
        if len(self.rows) < table.size:
            self._grow(table)
        return self.rows[: table.size]

    def _grow(self, table: NodeTable) -> None:
        self.rows = np.concatenate([self.rows, np.zeros(len(table.alive) - len(self.rows), np.int32)])


@dataclass(slots=True)
class _Carried:
    """The counts that every pod of a class moves by carrying terms, and how many such pods there are."""

    counts: list[PodCount]
    pods: int = 0


class PodCounts:
    """All counts of one table."""

    def __init__(self, table: NodeTable, namespaces: Namespaces | None = None) -> None:
        self.table = table
        self.namespaces: Namespaces = {} if namespaces is None else namespaces  # filled later by its owner
        #: forgotten with the last pod class that holds the count
        self._selectors: WeakValueDictionary[Hashable, PodCount] = WeakValueDictionary()
        #: the same by the namespaces they look into; None: all
        self._selectors_in: dict[str | None, WeakValueDictionary[Hashable, PodCount]] = {}
        #: namespace → class → the counts of the classes that were asked about since the last new selector
        self._matching: dict[str, dict[PodClass, list[PodCount]]] = {}
        #: namespace → class → row → pods; None until the first selector
        self._classes: dict[str, dict[PodClass, dict[int, int]]] | None = None
        #: terms that pods on nodes carry: (what it is for, term key, weight) → term and count
        self.carried: dict[tuple[str, Hashable, int], tuple[Term, int, PodCount]] = {}
        #: their keys by the namespaces they look into, None: all; with the order in which they appeared
        self._carried_in: dict[str | None, dict[tuple[str, Hashable, int], int]] = {}
        self._carries: dict[PodClass, _Carried] = {}
        self._most_carries = _LEAST_KEPT
        self._about: dict[tuple[PodClass, str], tuple[int, list[tuple[Term, int, PodCount]]]] = {}
        self.version = 0  #: changes when a new carried term appears
        table.listen(self._moved)

    # ── pods selected ────────────────────────────────────────────────────────────────────────────

    def selected(
        self,
        key: Hashable,
        selects: Selects,
        namespaces: Collection[str] | None = None,
        labelled: tuple[str, str] | None = None,
    ) -> PodCount:
        """Return the count of pods for which *selects* is true; *key* stands for it.

        Only pods of *namespaces* and with the label *labelled* can be selected, where they are given. The caller holds
        on to the count: it is kept up to date as long as it is held.
        """
        count = self._selectors.get(key)
        if count is None:
            count = self._selectors[key] = PodCount(self.table.size, selects)
            classes = self._on_rows()
            for namespace in list(classes) if namespaces is None else namespaces:
                for pod, rows in classes.get(namespace, {}).items():
                    if _is_labelled(pod, labelled) and selects(pod):
                        for row, pods in rows.items():
                            count.rows[row] += pods
                            count.total += pods
                known = self._matching.get(namespace, {})
                for pod in [pod for pod in known if _is_labelled(pod, labelled)]:
                    del known[pod]
            if namespaces is None:
                self._matching.clear()
            for place in [place for place, held in self._selectors_in.items() if not held]:
                del self._selectors_in[place]
            for place in (None,) if namespaces is None else namespaces:
                self._selectors_in.setdefault(place, WeakValueDictionary())[key] = count
        return count

    def _counts_of(self, pod: PodClass) -> list[PodCount]:
        """Return the counts that a pod of this class is part of."""
        known = self._matching.setdefault(pod.namespace, {})
        matching = known.get(pod)
        if matching is None:
            if len(known) >= _LEAST_KEPT:
                known.clear()
            matching = known[pod] = [
                count
                for place in (pod.namespace, None)
                for count in self._selectors_in.get(place, {}).values()
                if count.selects is not None and count.selects(pod)
            ]
        return matching

    # ── terms carried ────────────────────────────────────────────────────────────────────────────

    def terms_about(self, pod: PodClass, purpose: str) -> list[tuple[Term, int, PodCount]]:
        """Return the terms that pods on nodes carry for *purpose* and that select *pod*."""
        known = self._about.get((pod, purpose))
        if known is None or known[0] != self.version:
            about = [self.carried[key] for key in self._selecting(pod) if key[0] == purpose]
            if len(self._about) >= 4 * _LEAST_KEPT:
                self._about.clear()
            known = self._about[pod, purpose] = (self.version, about)
        return [found for found in known[1] if found[2].total]

    def concerns(self, pod: PodClass) -> bool:
        """Return whether a term that pods carry, or carried lately, selects *pod*."""
        return bool(self._selecting(pod))

    def _selecting(self, pod: PodClass) -> list[tuple[str, Hashable, int]]:
        """Return the keys of the carried terms that select *pod*, in the order in which they appeared."""
        places = (self._carried_in.get(place, {}) for place in (pod.namespace, None))
        numbers = {key: number for place in places for key, number in place.items()}
        return sorted((key for key in numbers if self.carried[key][0].selects(pod)), key=numbers.__getitem__)

    def _carried_by(self, pod: PodClass) -> list[PodCount]:
        counts: list[PodCount] = []
        for purpose, term, weight in carried_terms(pod, self.namespaces):
            key = (purpose, term.key, weight)
            if key not in self.carried:
                self.carried[key] = (term, weight, PodCount(self.table.size))
                self.version += 1
                for place in (None,) if term.namespaces is None else term.namespaces:
                    self._carried_in.setdefault(place, {})[key] = self.version
            counts.append(self.carried[key][2])
        return counts

    # ── keeping up ───────────────────────────────────────────────────────────────────────────────

    def _on_rows(self) -> dict[str, dict[PodClass, dict[int, int]]]:
        """Return how many pods of each class each row has, by namespace."""
        if self._classes is None:
            by_class: dict[PodClass, dict[int, int]] = {}
            for row, pods in enumerate(self.table.pods):
                for pod in pods.values():
                    rows = by_class.get(pod)
                    if rows is None:
                        rows = by_class[pod] = {}
                    rows[row] = rows.get(row, 0) + 1
            self._classes = {}
            for pod, rows in by_class.items():
                self._classes.setdefault(pod.namespace, {})[pod] = rows
        return self._classes

    def _moved(self, row: int, pod: PodClass, sign: int) -> None:
        if self._classes is not None:
            _count(self._classes, row, pod, sign)
        if self._selectors:
            for count in self._counts_of(pod):
                count.move(row, sign, self.table)
        if pod.affinity is not None:
            carried = self._carries.get(pod)
            if carried is None:
                if len(self._carries) >= self._most_carries:
                    self._forget_uncarried()
                carried = self._carries[pod] = _Carried(self._carried_by(pod))
            carried.pods += sign
            for count in carried.counts:
                count.move(row, sign, self.table)

    def _forget_uncarried(self) -> None:
        """Forget the classes that have no pod on any node, and the terms that none carries."""
        self._carries = {pod: carried for pod, carried in self._carries.items() if carried.pods}
        self._most_carries = max(_LEAST_KEPT, 2 * len(self._carries))
        self.carried = {key: found for key, found in self.carried.items() if found[2].total}
        kept = {
            place: {key: number for key, number in there.items() if key in self.carried}
            for place, there in self._carried_in.items()
        }
        self._carried_in = {place: there for place, there in kept.items() if there}
        self.version += 1


def _count(
    by_namespace: dict[str, dict[PodClass, dict[int, int]]], row: int, pod: PodClass, sign: int
) -> None:
    classes = by_namespace.setdefault(pod.namespace, {})
    rows = classes.setdefault(pod, {})
    rows[row] = rows.get(row, 0) + sign
    if not rows[row]:
        del rows[row]
        if not rows:
            del classes[pod]
            if not classes:
                del by_namespace[pod.namespace]


def _is_labelled(pod: PodClass, label: tuple[str, str] | None) -> bool:
    return label is None or pod.labels.get(label[0]) == label[1]


def carried_terms(pod: PodClass, namespaces: Namespaces) -> list[tuple[str, Term, int]]:
    """Return the affinity terms of *pod* that concern pods placed later, with purpose and weight."""
    affinity = pod.affinity
    found: list[tuple[str, Term, int]] = []
    if affinity is None:
        return found
    if affinity.pod_affinity is not None:
        found += [
            ("affinity", read_term(t, pod, namespaces), 1) for t in affinity.pod_affinity.required or ()
        ]
        found += [
            ("prefers", read_term(t.pod_affinity_term, pod, namespaces), t.weight)
            for t in affinity.pod_affinity.preferred or ()
        ]
    if affinity.pod_anti_affinity is not None:
        found += [
            ("anti-affinity", read_term(t, pod, namespaces), 1)
            for t in affinity.pod_anti_affinity.required or ()
        ]
        found += [
            ("avoids", read_term(t.pod_affinity_term, pod, namespaces), t.weight)
            for t in affinity.pod_anti_affinity.preferred or ()
        ]
    return found
