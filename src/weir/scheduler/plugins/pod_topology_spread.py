"""PodTopologySpread: keep the pods of a group evenly spread over zones, nodes or any other label.

Spec: core.md 3.7.7. DoNotSchedule constraints filter by skew, ScheduleAnyway constraints score. Which nodes count is
the constraint's choice: `nodeAffinityPolicy` (default Honor) and `nodeTaintsPolicy` (default Ignore), the latter with
every toleration operator and expression.
What surprises: a node left out by these policies is not refused here; it just does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from weir.gates import Gates
from weir.objects.core import LabelSelector, LabelSelectorRequirement, Pod, TopologySpreadConstraint
from weir.scheduler.framework import (
    MAX_NODE_SCORE,
    ClusterScorePlugin,
    Code,
    DefaultSelector,
    Extensions,
    FilterPlugin,
    Plugin,
    QueueingHint,
    Scope,
    Status,
)
from weir.scheduler.node_table import Bools, Ids, Ints, NodeTable
from weir.scheduler.plugins.node_affinity import BoundNodeAffinity
from weir.scheduler.plugins.taint_toleration import BoundTaintToleration, JudgedTaints
from weir.scheduler.pod_class import PodClass
from weir.scheduler.pod_counts import PodCount, PodCounts, read_selector
from weir.scheduler.queueing_hints import (
    NODE_ADD,
    NODE_DELETE,
    NODE_LABEL,
    NODE_TAINT,
    OWN_LABEL,
    OWN_TOLERATION,
    POD_ADD,
    POD_DELETE,
    POD_LABEL,
    ClusterEvent,
    always,
)
from weir.scheduler.reasons import NoTopologyDomain, Reason, TooSkewed

NAME: Final = "PodTopologySpread"
HOSTNAME: Final = "kubernetes.io/hostname"
_SKEWED: Final = Status(Code.UNSCHEDULABLE, (TooSkewed.words,), NAME)
_UNLABELLED: Final = Status(Code.UNRESOLVABLE, (NoTopologyDomain.words,), NAME)

#: What a pod without constraints of its own gets, with the selector of its controller and services.
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway", max_skew=3),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway", max_skew=5
    ),
)


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


class PodTopologySpread(Plugin):
    """The plugin; `default_selector` gives the selector for pods without constraints of their own."""

    name = NAME

    def __init__(
        self,
        pod_counts: PodCounts,
        gates: Gates,
        taints: JudgedTaints,
        defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS,
        *,
        system_defaults: bool = True,
        default_selector: DefaultSelector | None = None,
    ) -> None:
        self._counts, self._table, self._gates, self._taints = pod_counts, pod_counts.table, gates, taints
        self._defaults, self._system_defaults = defaults, system_defaults
        self._default_selector = default_selector

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod that nothing spreads, until its default selector changes."""
        bound, stale = self._bound(pod), self._watch_selector(pod)
        if bound is None:
            return Extensions(stale=stale)
        return Extensions(
            filter=bound if bound.filters else None,
            cluster_score=bound if bound.scores else None,
            stale=stale,
        )

    def _bound(self, pod: PodClass) -> BoundPodTopologySpread | None:
        require_all = True
        constraints = [(c, selector_for(c, pod.labels)) for c in pod.spread]
        if not pod.spread:
            selector = self._default_selector(pod) if self._default_selector is not None else None
            if selector is None:
                return None
            constraints = [(c, selector) for c in self._defaults]
            require_all = not self._system_defaults
        read = [
            self._read(c, s, pod, index if pod.spread else -1) for index, (c, s) in enumerate(constraints)
        ]
        hard = [one for (c, _), one in zip(constraints, read, strict=True) if _forbids(c)]
        soft = [
            one
            for (c, _), one in zip(constraints, read, strict=True)
            if c.when_unsatisfiable == "ScheduleAnyway"
        ]
        if not hard and not soft:
            return None
        return BoundPodTopologySpread(
            hard,
            soft,
            self._table,
            BoundNodeAffinity(pod, self._table, self._gates, None),
            BoundTaintToleration(pod, self._table, self._taints),
            require_all,
        )

    def _watch_selector(self, pod: PodClass) -> Callable[[], bool] | None:
        """Return what says whether the default selector of *pod* has changed since now; None: it never does."""
        selector_of = self._default_selector
        if selector_of is None or pod.spread:
            return None
        version, selector = selector_of.version, selector_of(pod)

        def changed() -> bool:
            nonlocal version
            if version == selector_of.version:
                return False
            version = selector_of.version
            return selector_of(pod) != selector

        return changed

    def _read(
        self, spec: TopologySpreadConstraint, selector: LabelSelector | None, pod: PodClass, index: int
    ) -> Constraint:
        matcher = read_selector(selector)
        empty = matcher is None or not matcher
        namespace = pod.namespace

        def selects(other: PodClass) -> bool:
            if empty or other.leaving or other.namespace != namespace:
                return False
            return matcher.matches(other.labels)  # type: ignore[union-attr]

        key = ("spread", namespace, msgspec.json.encode(selector, order="sorted"))
        return Constraint(
            spec.topology_key,
            spec.max_skew,
            1 if spec.min_domains is None else spec.min_domains,
            spec.node_affinity_policy != "Ignore",
            spec.node_taints_policy == "Honor",
            self._counts.selected(key, selects),
            matcher is not None and matcher.matches(pod.labels),
            index,
        )

    # ── queueing hints ───────────────────────────────────────────────────────────────────────────

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: self._has_keys,
            NODE_DELETE: self._has_keys,
            NODE_LABEL: self._has_keys,
            NODE_TAINT: self._has_keys,
            POD_ADD: self._counted_differently,
            POD_DELETE: self._counted_differently,
            POD_LABEL: self._counted_differently,
            OWN_LABEL: always,
            OWN_TOLERATION: self._honours_taints,
        }

    def _counted_differently(self, pod: Pod, event: ClusterEvent) -> bool:
        """A pod that the constraints count has come or gone, or is counted otherwise than before."""
        other = event.new or event.old
        if other.metadata.namespace != pod.metadata.namespace:
            return False
        selectors = [read_selector(selector_for(c, pod.metadata.labels or {})) for c in _hard(pod)]
        if not selectors:
            return True  # the profile's constraints rejected it, with a selector that is not the pod's own
        counted = [
            [
                version is not None and s is not None and s.matches(version.metadata.labels or {})
                for s in selectors
            ]
            for version in (event.old, event.new)
        ]
        return counted[0] != counted[1]

    def _has_keys(self, pod: Pod, event: ClusterEvent) -> bool:
        keys = [constraint.topology_key for constraint in _hard(pod)]
        if not keys:
            return True  # as above
        versions = [version for version in (event.old, event.new) if version is not None]
        complete = [all(key in version.labels for key in keys) for version in versions]
        if event.label == NODE_LABEL:
            values = [[version.labels.get(key) for key in keys] for version in versions]
            return any(complete) and values[0] != values[-1]
        return any(complete)

    def _honours_taints(self, pod: Pod, event: ClusterEvent) -> bool:
        constraints = _hard(pod)
        return not constraints or any(c.node_taints_policy == "Honor" for c in constraints)


def _forbids(constraint: TopologySpreadConstraint) -> bool:
    return constraint.when_unsatisfiable == "DoNotSchedule"


def _hard(pod: Pod) -> list[TopologySpreadConstraint]:
    """Return the spread constraints of *pod* that can refuse a node."""
    constraints = pod.spec.topology_spread_constraints or ()
    return [each for each in constraints if _forbids(each)]


def selector_for(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> LabelSelector | None:
    """Return the constraint's selector with matchLabelKeys added from the pod's *labels*."""
    selector = constraint.label_selector
    keys = [key for key in constraint.match_label_keys or () if key in labels]
    if selector is None or not keys:
        return selector
    added = tuple(LabelSelectorRequirement(key, "In", (labels[key],)) for key in keys)
    return LabelSelector(selector.match_labels, (*(selector.match_expressions or ()), *added))


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

    def _ids(self, key: str) -> Ids:
        return self._table.label(key).ids[: self._table.size]

    def _with_keys(self, constraints: list[Constraint]) -> Bools:
        there: Bools = np.ones(self._table.size, np.bool_)
        for constraint in constraints:
            there &= self._ids(constraint.key) >= 0
        return there

    def _sums(self, constraint: Constraint, nodes: _Counted) -> Ints:
        """Return the pods counted in each domain, 0 in the last place, which stands for no domain."""
        if nodes.all_labelled:
            return constraint.count.by_label(constraint.key, self._table)
        ids, counts = self._ids(constraint.key)[nodes.rows], constraint.count.on_rows(self._table)[nodes.rows]
        return np.bincount(ids, weights=counts, minlength=len(nodes.there)).astype(np.int64)

    # ── filter ───────────────────────────────────────────────────────────────────────────────────

    def codes(self, rows: Any) -> Ids:
        """Return 0, or 1 for too much skew, 2 for a missing label; the first constraint that refuses decides."""
        codes: Ids | None = None
        for constraint in self._hard:
            sums, smallest = self._skew(constraint)
            # judged once per domain; the last place is for nodes without the label
            verdict = (sums + constraint.counts_itself - smallest > constraint.max_skew).astype(np.int32)
            verdict[-1] = 2
            here = verdict.take(self._ids(constraint.key), mode="wrap")
            codes = here if codes is None else np.where(codes == 0, here, codes)
        assert codes is not None
        return codes[rows]

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

    def raw(self, feasible: Bools) -> tuple[Ints, Bools]:
        """Return each node's raw score (few is good) and which nodes are left out of scoring."""
        size = self._table.size
        scored, ignored = feasible, np.zeros(size, np.bool_)
        if self._require_all:
            with_keys = self._with_keys(self._soft)
            scored, ignored = feasible & with_keys, feasible & ~with_keys
        total = np.zeros(size, np.float64)
        for constraint in self._soft:
            ids = self._ids(constraint.key)
            allowed = constraint.max_skew - 1
            if constraint.key == HOSTNAME:
                weight = math.log(int(scored.sum()) + 2)
                total += np.where(ids >= 0, constraint.count.on_rows(self._table) * weight + allowed, 0.0)
                continue
            nodes = self._counted_nodes(constraint, self._soft if self._require_all else [])
            known = np.bincount(ids[scored] + 1, minlength=len(nodes.there))[1:] > 0
            weight = math.log(int(known.sum()) + 2)
            by_domain = np.where(np.append(known, False), self._sums(constraint, nodes), 0) * weight + allowed
            by_domain[-1] = 0.0  # a node without the label
            total += by_domain[ids]
        return np.floor(total + 0.5).astype(np.int64), ignored

    def normalized_scores(self, feasible: Bools) -> Ints:
        """Return scores from 0 to 100: the emptiest domains get 100."""
        if len(self._soft) == 1 and self._soft[0].key != HOSTNAME:
            return self._normalized_by_domain(self._soft[0], feasible)
        return self.normalized_by_node(feasible)

    def _normalized_by_domain(self, constraint: Constraint, feasible: Bools) -> Ints:
        """Return the same for one constraint, worked out once for all nodes of a domain.

        A fast twin of `normalized_by_node`; tests/unit/scheduler/plugins/test_pod_topology_spread.py holds them
        together, and "with spread, 5,000 nodes" of `python -m bench scheduler` pays for it.
        """
        nodes = self._counted_nodes(constraint, self._soft if self._require_all else [])
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
        raw, ignored = self.raw(feasible)
        scored = feasible & ~ignored
        if not scored.any():
            return np.zeros(self._table.size, np.int64)
        high, low = int(raw[scored].max()), int(raw[scored].min())
        if high == 0:
            return np.where(ignored, 0, MAX_NODE_SCORE)
        return np.where(ignored, 0, MAX_NODE_SCORE * (high + low - raw) // high)


#: With no domain at all, upstream's minimum stays at the largest int32, so no skew is ever too large.
_NO_DOMAIN: Final = 2**31 - 1
