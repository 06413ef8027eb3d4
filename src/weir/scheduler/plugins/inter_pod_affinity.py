"""InterPodAffinity: pod affinity and anti-affinity, required and preferred.

Spec: core.md 3.7.8.
Required terms filter: the pod's own affinity and anti-affinity, and the anti-affinity of existing pods. Preferred
terms of both sides score, and so does other pods' required affinity for this one. The first pod of a group with
affinity to itself may go to any node that has the topology key.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, Final

import numpy as np

from weir.objects.core import Pod
from weir.scheduler.framework import (
    MAX_NODE_SCORE,
    ClusterScorePlugin,
    Code,
    Extensions,
    FilterPlugin,
    Plugin,
    Scope,
    Status,
)
from weir.scheduler.node_columns import Bools, Ids, Ints
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass, build
from weir.scheduler.pod_counts import PodCount, PodCounts, Selects, Term, carried_terms, read_term
from weir.scheduler.queueing_hints import (
    NODE_ADD,
    NODE_LABEL,
    OWN_LABEL,
    POD_ADD,
    POD_DELETE,
    POD_LABEL,
    ClusterEvent,
    QueueingHint,
    always,
)
from weir.scheduler.reasons import AvoidedByPodNear, AvoidedPodNear, NoPodNear, Reason

NAME: Final = "InterPodAffinity"
_AFFINITY: Final = Status(Code.UNRESOLVABLE, (NoPodNear.words,), NAME)
_ANTI: Final = Status(Code.UNSCHEDULABLE, (AvoidedPodNear.words,), NAME)
_EXISTING: Final = Status(Code.UNSCHEDULABLE, (AvoidedByPodNear.words,), NAME)


def by_domain(table: NodeTable, topology_key: str, sums: Any) -> Any:
    """Return, for each node, what *sums* says of its topology domain; its last place is for nodes without one."""
    return sums.take(table.label(topology_key).ids[: table.size], mode="wrap")


def has_pod_in_domain(table: NodeTable, topology_key: str, count: PodCount) -> Bools:
    """Return, for each node, whether its topology domain has a pod that is counted."""
    near: Bools = by_domain(table, topology_key, count.by_label(topology_key, table) > 0)
    return near


class InterPodAffinity(Plugin):
    name = NAME

    def __init__(
        self, pod_counts: PodCounts, hard_weight: int = 1, *, ignore_preferred_of_existing: bool = False
    ) -> None:
        self._counts, self._hard_weight = pod_counts, hard_weight
        self._ignore_preferred = ignore_preferred_of_existing

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod that no term concerns, until one does."""
        bound = BoundInterPodAffinity(pod, self._counts, self._hard_weight, self._ignore_preferred)
        return (
            Extensions(filter=bound, cluster_score=bound)
            if bound.active()
            else Extensions(stale=bound.active)
        )

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: self._has_affinity_keys,
            NODE_LABEL: self._has_affinity_keys,
            POD_ADD: self._moves_affinity,
            POD_DELETE: self._moves_affinity,
            POD_LABEL: self._moves_affinity,
            OWN_LABEL: always,
        }

    def _required(self, pod: PodClass) -> tuple[list[Term], list[Term]]:
        """Return the terms *pod* must be near to and away from."""
        terms = carried_terms(pod, self._counts.namespaces)
        near = [term for purpose, term, _ in terms if purpose == "affinity"]
        return near, [term for purpose, term, _ in terms if purpose == "anti-affinity"]

    def _moves_affinity(self, pod: Pod, event: ClusterEvent) -> bool:
        """A pod to be near to has come, or one to be away from has gone."""
        mine = build(pod)
        near, apart = self._required(mine)
        old, new = (build(version) if version is not None else None for version in (event.old, event.new))
        liked = [version is not None and _selected_by_all(near, version) for version in (old, new)]
        disliked = [version is not None and any(t.selects(version) for t in apart) for version in (old, new)]
        if (liked[1] and not liked[0]) or (disliked[0] and not disliked[1]):
            return True
        if liked[0] and not liked[1] and _selected_by_all(near, mine):
            return True  # the first pod of a group may go anywhere
        # a pod that leaves takes its own anti-affinity along
        left = old if new is None else None
        return left is not None and any(term.selects(mine) for term in self._required(left)[1])

    def _has_affinity_keys(self, pod: Pod, event: ClusterEvent) -> bool:
        """The node may be where the pod can be near to, or away from, those it must."""
        near, apart = self._required(build(pod))
        if not near and not apart:
            return True  # another pod's term rejected it; its topology may be this node's
        labels = event.new.labels
        if event.old is None:  # a node without the label of an anti-affinity is away from every pod
            return all(term.topology_key in labels for term in near)
        before = event.old.labels
        return any(
            term.topology_key in labels and labels[term.topology_key] != before.get(term.topology_key)
            for term in near
        ) or any(
            term.topology_key in before and before[term.topology_key] != labels.get(term.topology_key)
            for term in apart
        )


def _selected_by_all(terms: list[Term], pod: PodClass) -> bool:
    return bool(terms) and all(term.selects(pod) for term in terms)


class BoundInterPodAffinity(FilterPlugin, ClusterScorePlugin):
    """The plugin for one pod class. Nothing is cached, since domains move as a whole."""

    name = NAME
    scope = Scope.CLUSTER

    def __init__(
        self, pod: PodClass, pod_counts: PodCounts, hard_weight: int, ignore_preferred: bool
    ) -> None:
        self._pod, self._table, self._counts = pod, pod_counts.table, pod_counts
        self._hard_weight, self._ignore_preferred = hard_weight, ignore_preferred
        affinity = pod.affinity
        near = affinity.pod_affinity if affinity else None
        apart = affinity.pod_anti_affinity if affinity else None
        self._near = [read_term(t, pod, pod_counts.namespaces) for t in (near.required or () if near else ())]
        self._apart = [
            read_term(t, pod, pod_counts.namespaces) for t in (apart.required or () if apart else ())
        ]
        self._prefers = [
            (read_term(t.pod_affinity_term, pod, pod_counts.namespaces), t.weight)
            for t in (near.preferred or () if near else ())
        ] + [
            (read_term(t.pod_affinity_term, pod, pod_counts.namespaces), -t.weight)
            for t in (apart.preferred or () if apart else ())
        ]
        self._seen = (-1, False)
        self._held: dict[Hashable, PodCount] = {}

    def active(self) -> bool:
        """Return whether any term concerns this class: its own, or one of a pod already placed."""
        if self._near or self._apart or self._prefers:
            return True
        if self._seen[0] != self._counts.version:
            self._seen = (self._counts.version, self._counts.concerns(self._pod))
        return self._seen[1]

    # ── filter ───────────────────────────────────────────────────────────────────────────────────

    def codes(self, rows: Any) -> Ids:
        """Return 0, or 1 affinity not met, 2 own anti-affinity, 3 anti-affinity of a pod there."""
        size = self._table.size
        codes = np.zeros(size, np.int32)
        for term, _, count in self._counts.terms_about(self._pod, "anti-affinity"):
            np.putmask(codes, has_pod_in_domain(self._table, term.topology_key, count), 3)
        for term in self._apart:
            np.putmask(codes, has_pod_in_domain(self._table, term.topology_key, self._selected(term)), 2)
        if self._near:
            codes[~self._near_enough()] = 1
        return codes[rows]

    def _wanted_near(self) -> PodCount:
        """Return the pods that all affinity terms select: upstream counts only those."""
        terms = tuple(self._near)
        key = ("all", tuple(term.key for term in terms))
        return self._hold(key, lambda pod: all(term.selects(pod) for term in terms))

    def _near_enough(self) -> Bools:
        wanted = self._wanted_near()
        labelled: Bools = np.ones(self._table.size, np.bool_)
        met: Bools = np.ones(self._table.size, np.bool_)
        anywhere = False
        for term in self._near:
            ids = self._table.label(term.topology_key).ids[: self._table.size]
            labelled &= ids >= 0
            here = has_pod_in_domain(self._table, term.topology_key, wanted)
            anywhere = anywhere or bool(here.any())
            met &= here
        if not anywhere and all(term.selects(self._pod) for term in self._near):
            return labelled  # the first of its kind has no pod to be near to
        return labelled & met

    def _selected(self, term: Term) -> PodCount:
        return self._hold(("term", term.key[1:]), term.selects, term.namespaces)  # type: ignore[index]

    def _hold(self, key: Hashable, selects: Selects, namespaces: Collection[str] | None = None) -> PodCount:
        """Return a count and hold on to it, so that it is kept up to date."""
        count = self._held.get(key)
        if count is None:
            count = self._held[key] = self._counts.selected(key, selects, namespaces)
        return count

    def status(self, code: int) -> Status:
        return {1: _AFFINITY, 2: _ANTI, 3: _EXISTING}[code]

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return every term that keeps the pod off the node; the first is the one `status` names."""
        found: list[Reason] = []
        if code == 1:
            wanted = self._wanted_near()
            lacking = [
                NoPodNear(index, term.topology_key)
                for index, term in enumerate(self._near)
                if not has_pod_in_domain(self._table, term.topology_key, wanted)[row]
            ]
            found += lacking
        found += [
            AvoidedPodNear(index, term.topology_key)
            for index, term in enumerate(self._apart)
            if has_pod_in_domain(self._table, term.topology_key, self._selected(term))[row]
        ]
        keys = dict.fromkeys(
            term.topology_key
            for term, _, count in self._counts.terms_about(self._pod, "anti-affinity")
            if has_pod_in_domain(self._table, term.topology_key, count)[row]
        )
        return (*found, *map(AvoidedByPodNear, keys))

    # ── score ────────────────────────────────────────────────────────────────────────────────────

    def normalized_scores(self, feasible: Bools) -> Ints | None:
        """Return 0 for the lowest weight sum among *feasible* and 100 for the highest."""
        raw = self._weight_sums()
        if raw is None or not feasible.any():
            return None
        open_raw = raw[feasible]
        high, low = int(open_raw[open_raw.argmax()]), int(open_raw[open_raw.argmin()])
        if high == low:
            return None
        scaled = (raw - low) / (high - low)
        scaled *= float(MAX_NODE_SCORE)
        return scaled.astype(np.int64)

    def _weight_sums(self) -> Ints | None:
        """Return each node's weight sum, or None when no term says anything."""
        if self._ignore_preferred and not self._prefers:
            return None  # a pod that prefers nothing is not scored by the terms of others, not even required ones
        # by topology key, since what lies in one domain is added up once for all its nodes
        sums: dict[str, Ints] = {}

        def add(key: str, weight: int, count: PodCount) -> None:
            weighed = weight * count.by_label(key, self._table)
            sums[key] = sums[key] + weighed if key in sums else weighed

        for term, weight in self._prefers:
            count = self._selected(term)
            if count.total:
                add(term.topology_key, weight, count)
        sources = [("affinity", self._hard_weight)] if self._hard_weight else []
        sources += [("prefers", 1), ("avoids", -1)]
        for purpose, sign in sources:
            for term, weight, count in self._counts.terms_about(self._pod, purpose):
                add(term.topology_key, sign * weight, count)
        if not sums:
            return None
        total: Ints = sum(by_domain(self._table, key, each) for key, each in sums.items())
        return total
