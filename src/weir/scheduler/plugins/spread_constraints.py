"""Spread constraints of one pod class: skew filter and scores over the nodes.

Spec: core.md 3.7.7. Pods are counted per domain (the value of the topology label), incrementally
(weir.scheduler.pod_counts); which nodes count is recomputed when a node changes. Without any domain no node is too
skewed.

Spread scores computed per (domain, pod count) instead of per node. Soft constraints on hostnames, alone or with one on
another label, are every workload's default. Nodes of one domain with equally many pods of the group score the same.
Optimized form of `BoundPodTopologySpread.normalized_by_node`; tests/unit/scheduler/plugins/test_spread_constraints.py
compares them; bench: "with default spread, 5,000 nodes" of `python -m bench scheduler`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weir.scheduler.framework import MAX_NODE_SCORE, ClusterScorePlugin, Code, FilterPlugin, Scope, Status
from weir.scheduler.node_columns import Bools, Ids, Ints
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.node_affinity import BoundNodeAffinity
from weir.scheduler.plugins.taint_toleration import BoundTaintToleration
from weir.scheduler.pod_counts import PodCount
from weir.scheduler.reasons import NoTopologyDomain, Reason, TooSkewed

NAME: Final = "PodTopologySpread"
HOSTNAME: Final = "kubernetes.io/hostname"
#: The values of a label on the nodes that are judged, and the pods that a constraint counts on them.
IdsOf = Callable[[str], Ids]
_SKEWED: Final = Status(Code.UNSCHEDULABLE, (TooSkewed.words,), NAME)
_UNLABELLED: Final = Status(Code.UNRESOLVABLE, (NoTopologyDomain.words,), NAME)


Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Beyond this many places for each node, looking at the nodes is cheaper.
_PLACES_A_NODE: Final = 2
_FEWEST_PLACES: Final = 256


class Places:
    """Where every node stands: its domain, and how many pods of the group it has. Kept while no node changes."""

    def __init__(self) -> None:
        self._version: object = None
        self.width = 0  #: of counts, one place before them for nodes without a hostname
        self.domains = 0

    def of_rows(
        self, version: object, counts: Ids, hosts: Ids, domains: Ids | None, known: int
    ) -> Ints | None:
        """Return the place of every row; None where there are too many places.

        *hosts* and *domains* are the label numbers of the rows, negative without the label; *known* domains are
        distinguished.
        """
        most = int(counts.max(initial=0))
        if self._version != version or most + 2 > self.width:
            self._version, self.domains = version, known
            self.width = 1 << (most + 2).bit_length()  # the next pods find room
            self._labelled = hosts >= 0
            self._all_labelled = bool(self._labelled.all())
            self._first: Ints = self._labelled.astype(np.int64)
            if domains is not None:
                self._first += np.where(domains >= 0, domains, known) * self.width
        if (known + 1) * self.width > max(_PLACES_A_NODE * len(counts), _FEWEST_PLACES):
            return None
        return self._first + (counts if self._all_labelled else np.where(self._labelled, counts, 0))

    def taken(self, places: Ints) -> Bools:
        """Return which places these are, by domain (the last is none) and count."""
        taken: Bools = np.zeros((self.domains + 1) * self.width, np.bool_)
        taken[places] = True
        return taken.reshape(self.domains + 1, self.width)

    def by_hostname(self, weight: float, allowed: int) -> Floats:
        """Return the raw score of every count; a node without a hostname has none."""
        scores: Floats = np.arange(-1.0, self.width - 1.0) * weight + allowed
        scores[0] = 0.0
        return scores


def normalized(raw: Ints, taken: Bools) -> Ints:
    """Return what the places score, from 0 to 100, held against those that are *taken*."""
    among = raw[taken]
    high, low = int(among.max()), int(among.min())
    if high == 0:
        return np.full(raw.shape, MAX_NODE_SCORE, np.int64)
    return MAX_NODE_SCORE * (high + low - raw) // high


@dataclass(frozen=True)
class Constraint:
    """One constraint, ready to count: which pods it counts and how much difference it allows."""

    key: str
    max_skew: int
    min_domains: int
    honours_affinity: bool
    honours_taints: bool
    count: PodCount
    counts_itself: bool
    index: int = -1  #: among the pod's own constraints; -1: a default of the scheduler


@dataclass(frozen=True)
class _Counted:
    """The nodes that count for one constraint."""

    rows: Bools
    all_labelled: bool  #: every node that has the label counts
    there: Bools  #: which domains have such a node; the last place stands for no domain
    domains: int


class BoundPodTopologySpread(FilterPlugin, ClusterScorePlugin):
    name = NAME
    scope = Scope.CLUSTER

    def __init__(
        self,
        hard: list[Constraint],
        soft: list[Constraint],
        table: NodeTable,
        affinity: BoundNodeAffinity,
        taints: BoundTaintToleration,
        require_all: bool,
    ) -> None:
        self._hard, self._soft, self._table = hard, soft, table
        self._affinity, self._taints, self._require_all = affinity, taints, require_all
        self._version: tuple[int, int] | None = None
        self._counted: dict[tuple[int, bool], _Counted] = {}
        hosts = [one for one in soft if one.key == HOSTNAME]
        others = [one for one in soft if one.key != HOSTNAME]
        by_count = len(hosts) == 1 and len(others) <= 1
        self._host = hosts[0] if by_count else None
        self._other = others[0] if by_count and others else None
        self._places = Places()
        #: by which nodes are alike; () where pods are held against each other by hostname, or counted in two ways
        self.topology_keys: tuple[str, ...] = ()
        if len(hosts) <= 1 and all(one.key != HOSTNAME for one in hard):
            self.topology_keys = tuple(dict.fromkeys(one.key for one in (*hard, *soft)))

    @property
    def filters(self) -> bool:
        return bool(self._hard)

    @property
    def scores(self) -> bool:
        return bool(self._soft)

    def _included(self, constraint: Constraint) -> Bools:
        """Return the nodes that count for *constraint*."""
        everything = slice(0, self._table.size)
        included = self._table.alive[everything].copy()
        if constraint.honours_affinity and self._affinity.filters:
            included &= self._affinity.codes(everything) == 0
        if constraint.honours_taints:
            included &= self._taints.codes(everything) == 0
        return included

    def _counted_nodes(self, constraint: Constraint, among: list[Constraint]) -> _Counted:
        """Return which nodes count for *constraint*; kept while no node changes."""
        if self._version != self._table.nodes_version:
            self._version = self._table.nodes_version
            self._counted.clear()
        known = self._counted.get((id(constraint), bool(among)))
        if known is None:
            ids = self._ids(constraint.key)
            rows = self._included(constraint) & self._with_keys(among or [constraint])
            all_labelled = bool((rows == (self._table.alive[: self._table.size] & (ids >= 0))).all())
            domains = len(self._table.label(constraint.key).values)
            there = np.bincount(ids[rows], minlength=domains + 1)[: domains + 1] > 0
            known = self._counted[id(constraint), bool(among)] = _Counted(
                rows, all_labelled, there, int(there.sum())
            )
        return known

    def _scored_nodes(self, constraint: Constraint) -> _Counted:
        """Return which nodes count for a constraint that scores."""
        return self._counted_nodes(constraint, self._soft if self._require_all else [])

    def _ids(self, key: str) -> Ids:
        return self._table.label(key).ids[: self._table.size]

    def _with_keys(self, constraints: list[Constraint]) -> Bools:
        columns = [self._ids(constraint.key) >= 0 for constraint in constraints]
        there: Bools = np.logical_and.reduce(columns)
        return there

    def _sums(self, constraint: Constraint, nodes: _Counted) -> Ints:
        """Return the pods counted in each domain, 0 in the last place, which stands for no domain."""
        return constraint.count.by_label(
            constraint.key, self._table, None if nodes.all_labelled else nodes.rows
        )

    # ── filter ───────────────────────────────────────────────────────────────────────────────────

    def codes(self, rows: Any) -> Ids:
        """Return 0, or 1 for too much skew, 2 for a missing label; the first constraint that refuses decides."""
        codes = self._codes(self._ids)
        return codes[rows]

    def codes_by_label(self, labels: Mapping[str, Ids]) -> Ids:
        """Return the same for nodes with these labels."""
        return self._codes(labels.__getitem__)

    def _codes(self, ids_of: IdsOf) -> Ids:
        codes: Ids | None = None
        for constraint in self._hard:
            sums, smallest = self._skew(constraint)
            # judged once per domain; the last place is for nodes without the label
            verdict = (sums + constraint.counts_itself - smallest > constraint.max_skew).astype(np.int32)
            verdict[-1] = 2
            here = verdict.take(ids_of(constraint.key), mode="wrap")
            codes = here if codes is None else np.where(codes == 0, here, codes)
        assert codes is not None
        return codes

    def status(self, code: int) -> Status:
        return _UNLABELLED if code == 2 else _SKEWED

    def _skew(self, constraint: Constraint) -> tuple[Ints, int]:
        """Return the pods counted in each domain, and the number that the others are held against."""
        nodes = self._counted_nodes(constraint, self._hard)
        sums = self._sums(constraint, nodes)
        if nodes.domains < constraint.min_domains:
            return sums, 0
        return sums, int(sums.min(where=nodes.there, initial=_NO_DOMAIN))

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return every constraint that keeps the pod off the node; the first is the one `status` names."""
        found: list[Reason] = []
        for constraint in self._hard:
            label = self._table.label(constraint.key)
            number = int(label.ids[row])
            if number < 0:
                found.append(NoTopologyDomain(constraint.index, constraint.key))
                continue
            sums, smallest = self._skew(constraint)
            here = int(sums[number]) + constraint.counts_itself
            if here - smallest > constraint.max_skew:
                domain = label.values[number]
                found.append(
                    TooSkewed(constraint.index, constraint.key, domain, here, smallest, constraint.max_skew)
                )
        return tuple(found)

    # ── score ────────────────────────────────────────────────────────────────────────────────────

    def counted_by_hostname(self) -> Ids | None:
        """Return the pods on every row that count for the constraint on hostnames; None without one."""
        host = next((one for one in self._soft if one.key == HOSTNAME), None)
        return None if host is None else host.count.on_rows(self._table)

    def scores_by_place(
        self, labels: Mapping[str, list[int]], places: Sequence[tuple[int, int, int]]
    ) -> list[int]:
        """Return scores from 0 to 100 of places: each a position in *labels*, the pods by hostname, the feasible nodes.

        Optimized form of `normalized_by_node`, in plain numbers; tests/unit/scheduler/test_best_by_domain.py compares
        them; bench: the curve `placement` of `python -m bench growth`.
        """
        scored = [True] * len(places)
        if self._require_all:
            columns = [labels[constraint.key] for constraint in self._soft]
            scored = [all(ids[at] >= 0 for ids in columns) for at, _, _ in places]
        raw = [0.0] * len(places)
        for constraint in self._soft:
            ids, allowed = labels[constraint.key], constraint.max_skew - 1
            here = [ids[at] for at, _, _ in places]
            if constraint.key == HOSTNAME:
                nodes = sum([nodes for (_, _, nodes), counts in zip(places, scored, strict=True) if counts])
                weight = math.log(nodes + 2)
                parts = [
                    count * weight + allowed if domain >= 0 else 0.0
                    for (_, count, _), domain in zip(places, here, strict=True)
                ]
            else:
                there = {domain for domain, counts in zip(here, scored, strict=True) if counts} - {-1}
                sums = self._sums(constraint, self._scored_nodes(constraint))
                weight = math.log(len(there) + 2)
                by_domain = {domain: sums.item(domain) * weight + allowed for domain in there}
                parts = [by_domain.get(domain, 0.0) for domain in here]
            raw = [one + other for one, other in zip(raw, parts, strict=True)]
        whole = [math.floor(one + 0.5) for one in raw]
        among = [one for one, counts in zip(whole, scored, strict=True) if counts]
        high, both = max(among, default=0), max(among, default=0) + min(among, default=0)
        return [
            (MAX_NODE_SCORE * (both - one) // high if high else MAX_NODE_SCORE) if counts else 0
            for one, counts in zip(whole, scored, strict=True)
        ]

    def normalized_scores(self, feasible: Bools) -> Ints:
        """Return scores from 0 to 100: the emptiest domains get 100."""
        if len(self._soft) == 1 and self._soft[0].key != HOSTNAME:
            return self._normalized_by_domain(self._soft[0], feasible)
        found = self._normalized_by_count(feasible) if self._host is not None else None
        return self.normalized_by_node(feasible) if found is None else found

    def _normalized_by_count(self, feasible: Bools) -> Ints | None:
        """Return the same for one constraint on hostnames and at most one other (.spread_by_count); None: too many."""
        table, places, host, other = self._table, self._places, self._host, self._other
        assert host is not None
        domains = None if other is None else self._ids(other.key)
        known = 0 if other is None else len(table.label(other.key).values)
        rows = places.of_rows(
            table.nodes_version, host.count.on_rows(table), self._ids(HOSTNAME), domains, known
        )
        if rows is None:
            return None
        with_keys = self._with_keys(self._soft) if self._require_all else None
        scored = feasible if with_keys is None else feasible & with_keys
        among = int(np.count_nonzero(scored))
        if not among:
            return np.zeros(table.size, np.int64)
        taken = places.taken(rows[scored])
        raw = np.zeros(taken.shape, np.float64)
        for constraint in self._soft:
            if constraint is host:
                raw += places.by_hostname(math.log(among + 2), host.max_skew - 1)
            else:
                there: Bools = np.logical_or.reduce(taken, axis=1)
                there[-1] = False
                raw += self._by_domain(constraint, there)[:, None]
        scores = normalized(np.floor(raw + 0.5).astype(np.int64), taken).take(rows)
        return scores if with_keys is None else np.where(feasible & ~with_keys, 0, scores)

    def _by_domain(self, constraint: Constraint, there: Bools) -> Floats:
        """Return the raw score of every domain; *there* are those with a node that is scored, never the last."""
        nodes = self._scored_nodes(constraint)
        weight = math.log(int(np.count_nonzero(there)) + 2)
        scores: Floats = np.where(there, self._sums(constraint, nodes), 0) * weight + (
            constraint.max_skew - 1
        )
        scores[-1] = 0.0  # a node without the label
        return scores

    def _normalized_by_domain(self, constraint: Constraint, feasible: Bools) -> Ints:
        """Return the same for one constraint, worked out once for all nodes of a domain.

        Optimized form of `normalized_by_node`; tests/unit/scheduler/plugins/test_spread_constraints.py compares
        them; bench: "with spread, 5,000 nodes" of `python -m bench scheduler`.
        """
        nodes = self._scored_nodes(constraint)
        ids = self._ids(constraint.key)
        counts = np.bincount(ids[feasible] + 1, minlength=len(nodes.there))
        known = counts > 0  # in the first place: nodes without the label, which come last everywhere else
        weight = math.log(int(known[1:].sum()) + 2)
        sums = np.where(known[1:], self._sums(constraint, nodes)[:-1], 0)
        raw = np.floor(sums * weight + (constraint.max_skew - 1) + 0.5).astype(np.int64)
        raw = np.append(raw, 0)
        scored = np.append(known[1:], bool(known[0]) and not self._require_all)
        if not scored.any():
            return np.zeros(self._table.size, np.int64)
        high, low = int(raw[scored].max()), int(raw[scored].min())
        scores = MAX_NODE_SCORE * (high + low - raw) // high if high else np.full(len(raw), MAX_NODE_SCORE)
        if self._require_all:
            scores[-1] = 0
        return scores.take(ids, mode="wrap")

    def normalized_by_node(self, feasible: Bools) -> Ints:
        """Return the same in general."""
        scored, ignored = feasible, np.zeros(len(feasible), np.bool_)
        if self._require_all:
            with_keys = self._with_keys(self._soft)
            scored, ignored = feasible & with_keys, feasible & ~with_keys
        if not scored.any():
            return np.zeros(len(feasible), np.int64)
        total = np.zeros(len(feasible), np.float64)
        for constraint in self._soft:
            ids = self._ids(constraint.key)
            allowed = constraint.max_skew - 1
            if constraint.key == HOSTNAME:
                weight = math.log(int(scored.sum()) + 2)
                counts = constraint.count.on_rows(self._table)
                total += np.where(ids >= 0, counts * weight + allowed, 0.0)
                continue
            domains = len(self._table.label(constraint.key).values)
            there = np.bincount(ids[scored] + 1, minlength=domains + 1)[1:] > 0
            total += self._by_domain(constraint, np.append(there, False))[ids]
        raw = np.floor(total + 0.5).astype(np.int64)
        high, low = int(raw[scored].max()), int(raw[scored].min())
        if high == 0:
            return np.where(ignored, 0, MAX_NODE_SCORE)
        return np.where(ignored, 0, MAX_NODE_SCORE * (high + low - raw) // high)


#: With no domain at all, upstream's minimum stays at the largest int32, so no skew is ever too large.
_NO_DOMAIN: Final = 2**31 - 1
