"""PodTopologySpread: keep the pods of a group evenly spread over zones, nodes or any other label.

Spec: core.md 3.7.7. DoNotSchedule constraints filter by skew, ScheduleAnyway constraints score. Which nodes count is
the constraint's choice: `nodeAffinityPolicy` (default Honor) and `nodeTaintsPolicy` (default Ignore), the latter with
every toleration operator and expression.
What surprises: a node left out by these policies is not refused here; it just does not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from weir.gates import Gates
from weir.objects.core import LabelSelector, LabelSelectorRequirement, TopologySpreadConstraint
from weir.scheduler.framework import MAX_NODE_SCORE, Code, Status
from weir.scheduler.plugins.node_affinity import BoundNodeAffinity
from weir.scheduler.plugins.taint_toleration import BoundTaintToleration, TaintToleration
from weir.scheduler.podclass import PodClass
from weir.scheduler.table import Bools, Ids, Ints, NodeTable
from weir.scheduler.tally import Count, Tally, read_selector

NAME: Final = "PodTopologySpread"
HOSTNAME: Final = "kubernetes.io/hostname"
_SKEWED: Final = Status(Code.UNSCHEDULABLE, ("node(s) didn't match pod topology spread constraints",), NAME)
_UNLABELLED: Final = Status(
    Code.UNRESOLVABLE,
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
    NAME,
)

#: What a pod without constraints of its own gets, with the selector of its controller and services.
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway", max_skew=3),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway", max_skew=5
    ),
)


@dataclass(frozen=True)
class Constraint:
    """One constraint, ready to count: whom it counts and how much difference it allows."""

    key: str
    max_skew: int
    min_domains: int
    honours_affinity: bool
    honours_taints: bool
    count: Count
    counts_itself: bool


class PodTopologySpread:
    """The plugin; `default_selector` gives the selector for pods without constraints of their own."""

    name = NAME

    def __init__(
        self,
        tally: Tally,
        gates: Gates,
        taints: TaintToleration,
        defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS,
        *,
        system_defaults: bool = True,
        default_selector: Any = None,
    ) -> None:
        self._tally, self._gates, self._taints = tally, gates, taints
        self._defaults, self._system_defaults = defaults, system_defaults
        self._default_selector = default_selector or (lambda pod: None)

    def bind(self, pod: PodClass, table: NodeTable) -> BoundPodTopologySpread | None:
        """Return the check, or None for a pod that nothing spreads."""
        require_all = True
        constraints = [(c, _selector(c, pod)) for c in pod.spread]
        if not pod.spread:
            selector: LabelSelector | None = self._default_selector(pod)
            if selector is None:
                return None
            constraints = [(c, selector) for c in self._defaults]
            require_all = not self._system_defaults
        hard = [self._read(c, s, pod) for c, s in constraints if c.when_unsatisfiable == "DoNotSchedule"]
        soft = [self._read(c, s, pod) for c, s in constraints if c.when_unsatisfiable == "ScheduleAnyway"]
        if not hard and not soft:
            return None
        return BoundPodTopologySpread(
            hard,
            soft,
            table,
            BoundNodeAffinity(pod, table, self._gates, None),
            self._taints.bind(pod, table),
            require_all,
        )

    def _read(
        self, spec: TopologySpreadConstraint, selector: LabelSelector | None, pod: PodClass
    ) -> Constraint:
        matcher = read_selector(selector)
        empty = matcher is None or not matcher
        namespace = pod.namespace

        def selects(other: PodClass) -> bool:
            return not empty and other.namespace == namespace and matcher.matches(other.labels)  # type: ignore[union-attr]

        key = ("spread", namespace, msgspec.json.encode(selector, order="sorted"))
        return Constraint(
            spec.topology_key,
            spec.max_skew,
            1 if spec.min_domains is None else spec.min_domains,
            spec.node_affinity_policy != "Ignore",
            spec.node_taints_policy == "Honor",
            self._tally.selected(key, selects),
            matcher is not None and matcher.matches(pod.labels),
        )


def _selector(constraint: TopologySpreadConstraint, pod: PodClass) -> LabelSelector | None:
    """Return the constraint's selector with matchLabelKeys added from the pod's labels."""
    selector = constraint.label_selector
    keys = [key for key in constraint.match_label_keys or () if key in pod.labels]
    if selector is None or not keys:
        return selector
    added = tuple(LabelSelectorRequirement(key, "In", (pod.labels[key],)) for key in keys)
    return LabelSelector(selector.match_labels, (*(selector.match_expressions or ()), *added))


class BoundPodTopologySpread:
    name = NAME
    dynamic = True

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

    def _ids(self, key: str) -> Ids:
        return self._table.label(key).ids[: self._table.size]

    def _with_keys(self, constraints: list[Constraint]) -> Bools:
        there: Bools = np.ones(self._table.size, np.bool_)
        for constraint in constraints:
            there &= self._ids(constraint.key) >= 0
        return there

    # ── filter ───────────────────────────────────────────────────────────────────────────────────

    def codes(self, rows: Any) -> Ids:
        """Return 0, or 1 for too much skew, 2 for a missing label; the first constraint that refuses decides."""
        codes = np.zeros(self._table.size, np.int32)
        with_keys = self._with_keys(self._hard)
        for constraint in self._hard:
            ids = self._ids(constraint.key)
            counted = self._included(constraint) & with_keys
            sums, smallest = self._sums(constraint, ids, counted)
            skew = np.where(ids >= 0, sums[ids], 0) + constraint.counts_itself - smallest
            verdict = np.where(ids < 0, 2, np.where(skew > constraint.max_skew, 1, 0))
            codes = np.where(codes == 0, verdict, codes).astype(np.int32)
        return codes[rows]

    def _sums(self, constraint: Constraint, ids: Ids, counted: Bools) -> tuple[Ints, int]:
        domains = max(len(self._table.label(constraint.key).values), 1)
        counts = constraint.count.rows
        if len(counts) < self._table.size:
            counts = np.concatenate([counts, np.zeros(self._table.size - len(counts), np.int64)])
        chosen = ids[counted]
        sums = np.bincount(chosen, weights=counts[: self._table.size][counted], minlength=domains).astype(
            np.int64
        )
        there = np.bincount(chosen, minlength=domains) > 0
        if int(there.sum()) < constraint.min_domains:
            return sums, 0
        return sums, int(sums[there].min()) if there.any() else _NO_DOMAIN

    def status(self, code: int) -> Status:
        return _UNLABELLED if code == 2 else _SKEWED

    # ── score ────────────────────────────────────────────────────────────────────────────────────

    def raw(self, feasible: Bools) -> tuple[Ints, Bools]:
        """Return each node's raw score (few is good) and which nodes are left out of scoring."""
        size = self._table.size
        with_keys = self._with_keys(self._soft)
        ignored = feasible & ~with_keys if self._require_all else np.zeros(size, np.bool_)
        scored = feasible & ~ignored
        total = np.zeros(size, np.float64)
        for constraint in self._soft:
            ids = self._ids(constraint.key)
            labelled = ids >= 0
            if constraint.key == HOSTNAME:
                here: Any = constraint.count.rows[:size]
                domains = int(scored.sum())
            else:
                known = (
                    np.bincount(
                        ids[scored & labelled],
                        minlength=max(len(self._table.label(constraint.key).values), 1),
                    )
                    > 0
                )
                counted = self._included(constraint) & labelled & (with_keys if self._require_all else True)
                sums, _ = self._sums(constraint, ids, counted)
                here = np.where(labelled, np.where(known[ids], sums[ids], 0), 0)
                domains = int(known.sum())
            weight = math.log(domains + 2)
            total += np.where(labelled, here * weight + (constraint.max_skew - 1), 0.0)
        return np.floor(total + 0.5).astype(np.int64), ignored

    def normalised(self, feasible: Bools) -> Ints:
        """Return scores from 0 to 100: the emptiest domains get 100."""
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
