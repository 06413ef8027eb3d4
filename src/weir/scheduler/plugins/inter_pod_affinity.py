"""InterPodAffinity: run near, or away from, pods with certain labels.

Spec: core.md 3.7.8. Required terms filter: the pod's own affinity and anti-affinity, and the anti-affinity of pods
already there. Preferred terms of both sides score, and so does other pods' required affinity for this one.
What surprises: the first pod of a group that wants its own kind near may go anywhere the topology key exists.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weir.scheduler.framework import Code, Status
from weir.scheduler.node_table import Bools, Ids, Ints, NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.pod_counts import Count, PodCounts, Term, read_term
from weir.scheduler.reasons import AvoidedByPodNear, AvoidedPodNear, NoPodNear, Reason

NAME: Final = "InterPodAffinity"
_AFFINITY: Final = Status(Code.UNRESOLVABLE, (NoPodNear.words,), NAME)
_ANTI: Final = Status(Code.UNSCHEDULABLE, (AvoidedPodNear.words,), NAME)
_EXISTING: Final = Status(Code.UNSCHEDULABLE, (AvoidedByPodNear.words,), NAME)


def by_domain(table: NodeTable, topology_key: str, sums: Any) -> Any:
    """Return, for each node, what *sums* says of its topology domain; its last place is for nodes without one."""
    return sums.take(table.label(topology_key).ids[: table.size], mode="wrap")


def anybody_near(table: NodeTable, topology_key: str, count: Count) -> Bools:
    """Return, for each node, whether its topology domain has a pod that is counted."""
    near: Bools = by_domain(table, topology_key, count.by_label(topology_key, table) > 0)
    return near


class InterPodAffinity:
    name = NAME

    def __init__(
        self, tally: PodCounts, hard_weight: int = 1, *, ignore_preferred_of_existing: bool = False
    ) -> None:
        self._tally, self._hard_weight = tally, hard_weight
        self._ignore_preferred = ignore_preferred_of_existing

    def bind(self, pod: PodClass, table: NodeTable) -> BoundInterPodAffinity:
        return BoundInterPodAffinity(pod, table, self._tally, self._hard_weight, self._ignore_preferred)


class BoundInterPodAffinity:
    """The plugin for one pod class. Domains move as a whole, so nothing is kept: sums are made when asked."""

    name = NAME
    dynamic = True

    def __init__(
        self, pod: PodClass, table: NodeTable, tally: PodCounts, hard_weight: int, ignore_preferred: bool
    ) -> None:
        self._pod, self._table, self._tally = pod, table, tally
        self._hard_weight, self._ignore_preferred = hard_weight, ignore_preferred
        affinity = pod.affinity
        near = affinity.pod_affinity if affinity else None
        apart = affinity.pod_anti_affinity if affinity else None
        self._near = [read_term(t, pod, tally.namespaces) for t in (near.required or () if near else ())]
        self._apart = [read_term(t, pod, tally.namespaces) for t in (apart.required or () if apart else ())]
        self._prefers = [
            (read_term(t.pod_affinity_term, pod, tally.namespaces), t.weight)
            for t in (near.preferred or () if near else ())
        ] + [
            (read_term(t.pod_affinity_term, pod, tally.namespaces), -t.weight)
            for t in (apart.preferred or () if apart else ())
        ]
        self._seen = (-1, False)

    def active(self) -> bool:
        """Return whether any term concerns this class: its own, or one of a pod already placed."""
        if self._near or self._apart or self._prefers:
            return True
        if self._seen[0] != self._tally.version:
            about = any(term.selects(self._pod) for term, _, _ in self._tally.carried.values())
            self._seen = (self._tally.version, about)
        return self._seen[1]

    # ── filter ───────────────────────────────────────────────────────────────────────────────────

    def codes(self, rows: Any) -> Ids:
        """Return 0, or 1 affinity not met, 2 own anti-affinity, 3 anti-affinity of a pod there."""
        size = self._table.size
        codes = np.zeros(size, np.int32)
        for term, _, count in self._tally.terms_about(self._pod, "anti-affinity"):
            np.putmask(codes, anybody_near(self._table, term.topology_key, count), 3)
        for term in self._apart:
            np.putmask(codes, anybody_near(self._table, term.topology_key, self._selected(term)), 2)
        if self._near:
            codes[~self._near_enough()] = 1
        return codes[rows]

    def _wanted_near(self) -> Count:
        """Return the pods that all affinity terms select: upstream counts only those."""
        return self._tally.selected(
            ("all", tuple(term.key for term in self._near)),
            lambda pod, terms=tuple(self._near): all(term.selects(pod) for term in terms),
        )

    def _near_enough(self) -> Bools:
        everyone = self._wanted_near()
        labelled: Bools = np.ones(self._table.size, np.bool_)
        met: Bools = np.ones(self._table.size, np.bool_)
        anywhere = False
        for term in self._near:
            ids = self._table.label(term.topology_key).ids[: self._table.size]
            labelled &= ids >= 0
            here = anybody_near(self._table, term.topology_key, everyone)
            anywhere = anywhere or bool(here.any())
            met &= here
        if not anywhere and all(term.selects(self._pod) for term in self._near):
            return labelled  # the first of its kind has nobody to be near to
        return labelled & met

    def _selected(self, term: Term) -> Count:
        return self._tally.selected(("term", term.key[1:]), term.selects)  # type: ignore[index]

    def status(self, code: int) -> Status:
        return {1: _AFFINITY, 2: _ANTI, 3: _EXISTING}[code]

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return every term that keeps the pod off the node; the first is the one `status` names."""
        found: list[Reason] = []
        if code == 1:
            everyone = self._wanted_near()
            lacking = [
                NoPodNear(index, term.topology_key)
                for index, term in enumerate(self._near)
                if not anybody_near(self._table, term.topology_key, everyone)[row]
            ]
            found += lacking
        found += [
            AvoidedPodNear(index, term.topology_key)
            for index, term in enumerate(self._apart)
            if anybody_near(self._table, term.topology_key, self._selected(term))[row]
        ]
        keys = dict.fromkeys(
            term.topology_key
            for term, _, count in self._tally.terms_about(self._pod, "anti-affinity")
            if anybody_near(self._table, term.topology_key, count)[row]
        )
        return (*found, *map(AvoidedByPodNear, keys))

    # ── score ────────────────────────────────────────────────────────────────────────────────────

    def raw(self, rows: Any) -> Ints | None:
        """Return each node's weight sum, or None when no term says anything."""
        if self._ignore_preferred and not self._prefers:
            return None  # who prefers nothing is not asked about the others, not even about what they require
        sums: dict[
            str, Ints
        ] = {}  # by topology key, since what lies in one domain is added up once for all its nodes

        def say(key: str, weight: int, count: Count) -> None:
            said = weight * count.by_label(key, self._table)
            sums[key] = sums[key] + said if key in sums else said

        for term, weight in self._prefers:
            count = self._selected(term)
            if count.total:
                say(term.topology_key, weight, count)
        sources = [("affinity", self._hard_weight)] if self._hard_weight else []
        sources += [("prefers", 1), ("avoids", -1)]
        for purpose, sign in sources:
            for term, weight, count in self._tally.terms_about(self._pod, purpose):
                say(term.topology_key, sign * weight, count)
        if not sums:
            return None
        total: Ints = sum(by_domain(self._table, key, each) for key, each in sums.items())
        return total[rows]
