"""One pod, all nodes: where does it go, or why nowhere?

Spec: core.md 3.1 "Cycle", 3.3, 3.5. Pure: the engine holds the table and the standings of pod classes, and answers;
binding, events and retries are the caller's. A known class costs the rows that changed since it was last asked; a
class whose spread or affinity moves whole domains, a pod with nominated rivals, and sampling take the longer way
over all rows, through the same filters and scores.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import numpy as np

from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.resource import ResourceClaim
from weir.scheduler.feasibility import Feasibility
from weir.scheduler.framework import Code, Diagnosis, NoNodes, PluginError, Status
from weir.scheduler.node_table import Bools, Ints, NodeTable, Rows
from weir.scheduler.plugins.node_affinity import CONFLICT
from weir.scheduler.pod_class import PodClass, PodClasses
from weir.scheduler.pod_counts import Namespaces, PodCounts
from weir.scheduler.profile import (
    DefaultSelector,
    PluginOfDevices,
    PluginOfPods,
    Profile,
    ProfileArguments,
    Reservation,
)
from weir.taints.toleration import Evaluate

#: Memory for standings before the least recently used is dropped; each holds about 17 bytes a node.
_STANDINGS_BYTES: Final = 128 * 2**20
_BYTES_A_NODE: Final = 17
_LEAST_STANDINGS: Final = 64
_LEAST_TO_FIND: Final = 100


@dataclass(frozen=True, slots=True)
class Placement:
    """The node a pod goes to, and how many could have taken it."""

    node: str
    feasible: int
    score: int = 0
    reserves: bool = False  #: whether a plugin may promise more than room there: volumes, devices


class Engine:
    """Decides for one profile over one table.

    >>> from weir.objects.core import Node, read
    >>> engine = Engine(Gates())
    >>> engine.table.put_node(read(Node, {"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}))
    >>> engine.place(read(Pod, {"metadata": {"name": "p"}})).node
    'n1'
    """

    def __init__(
        self,
        gates: Gates,
        arguments: ProfileArguments | None = None,
        *,
        table: NodeTable | None = None,
        namespaces: Namespaces | None = None,
        evaluate: Evaluate | None = None,
        default_selector: DefaultSelector | None = None,
        volumes: Sequence[PluginOfPods] = (),
        devices: Sequence[PluginOfDevices] = (),
        rng: random.Random | None = None,
    ) -> None:
        self.table = NodeTable() if table is None else table  # an empty table counts as false
        self.tally = PodCounts(self.table, namespaces)
        self.profile = Profile(
            self.table,
            self.tally,
            gates,
            arguments,
            evaluate=evaluate,
            default_selector=default_selector,
            volumes=volumes,
            devices=devices,
        )
        self.classes = PodClasses()
        self._standings: dict[PodClass, Feasibility] = {}
        self._rng = rng  #: breaks ties at random when given; the first found wins otherwise
        self._start = 0  #: where sampling looks first
        nobody = Pod()
        self._asked = (nobody, self.classes.of(nobody))

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def place(self, pod: Pod, nominated: Mapping[str, list[PodClass]] | None = None) -> Placement | Diagnosis:
        """Return where *pod* goes, or why nowhere; *nominated* are rivals it must leave room for, by node."""
        if not len(self.table):
            raise NoNodes
        feasibility = self.attended(pod)
        short = (
            not feasibility.bound.moves_domains
            and not feasibility.bound.only
            and not nominated
            and self._rng is None
            and not feasibility.bound.unreadable
            and self.profile.arguments.percentage_of_nodes_to_score is None
        )
        if short:
            row = feasibility.best()
            if row is None:
                return self._diagnose(feasibility, self.table.ordered, None)
            return Placement(self._name(row), -1)
        return self._place_the_long_way(feasibility, nominated or {})

    def _place_the_long_way(
        self, feasibility: Feasibility, nominated: Mapping[str, list[PodClass]]
    ) -> Placement | Diagnosis:
        rows = self.table.ordered
        absent: Status | None = None
        if feasibility.bound.only:
            narrowed = self._narrow(feasibility)
            if isinstance(narrowed, Diagnosis):
                return narrowed
            rows, absent = narrowed
        rejected = self._prefilter(feasibility)
        if rejected is not None:
            return rejected
        feasible = self._sampled(self._feasible(feasibility, rows, nominated), rows)
        count = int(np.count_nonzero(feasible))
        if count == 0:
            return self._diagnose(feasibility, rows, absent, nominated)
        reserves = bool(feasibility.bound.of_pods)
        if count == 1:
            return Placement(self._name(int(feasible.argmax())), 1, reserves=reserves)
        if feasibility.bound.unreadable:
            raise PluginError(feasibility.bound.unreadable)
        totals = feasibility.totals(feasible)
        row = self._choose(totals, feasible)
        return Placement(self._name(row), count, int(totals[row]), reserves)

    def place_on(
        self, pod: Pod, node: str, nominated: Mapping[str, list[PodClass]] | None = None
    ) -> Placement | None:
        """Return a placement on *node*, which was promised to *pod*, if it still takes it."""
        row = self.table.row_of.get(node)
        if row is None:
            return None
        feasibility = self.attended(pod)
        if self._prefilter(feasibility) is not None or feasibility.statuses(np.array([row], np.int64)):
            return None
        rivals = (nominated or {}).get(node, [])
        if rivals and not self._leaves_room(feasibility, row, rivals):
            return None
        return Placement(node, 1, reserves=bool(feasibility.bound.of_pods))

    def scores(self, pod: Pod) -> dict[str, int]:
        """Return the total score of every feasible node, by name."""
        feasibility = self.attended(pod)
        feasible = self._feasible(feasibility, self.table.ordered, {})
        totals = feasibility.totals(feasible)
        return {self._name(int(row)): int(totals[row]) for row in np.flatnonzero(feasible)}

    def statuses(self, pod: Pod) -> dict[str, Status]:
        """Return the status of every node that refuses the pod, by name."""
        feasibility = self.attended(pod)
        found = feasibility.statuses(self.table.ordered)
        return {self._name(row): status for row, status in found.items()}

    def standing_of(self, pod: Pod) -> Feasibility:
        """Return the standing of the class of *pod*."""
        return self.feasibility(self._class_of(pod))

    def attended(self, pod: Pod) -> Feasibility:
        """Return the same with its plugins told which pod of the class is meant now."""
        feasibility = self.feasibility(self._class_of(pod))
        for plugin in feasibility.bound.of_pods:
            if hasattr(plugin, "attend"):
                plugin.attend(pod)
        return feasibility

    def time_plugins(self, feasibility: Feasibility) -> Iterator[tuple[str, float]]:
        """Yield how long each filter takes to judge one node, for a sample of attempts."""
        rows = self.table.ordered[:1]
        for plugin in feasibility.bound.filters:
            if getattr(plugin, "lazy", False):
                continue  # judges rows that the attempt did not need
            began = perf_counter()
            plugin.codes(rows)
            yield plugin.name, perf_counter() - began

    def feasibility(self, pod_class: PodClass) -> Feasibility:
        """Return the standing of a class, made when first asked for."""
        feasibility = self._standings.pop(pod_class, None)
        if feasibility is None or feasibility.bound.stale:
            feasibility = Feasibility(pod_class, self.table, self.profile.bind(pod_class))
            most = max(_STANDINGS_BYTES // (_BYTES_A_NODE * len(self.table.alive)), _LEAST_STANDINGS)
            while len(self._standings) >= most:
                self._standings.pop(next(iter(self._standings)))
                self.classes.forget(2 * most)
        self._standings[pod_class] = feasibility  # the most recently used stands last
        return feasibility

    # ── accounting ───────────────────────────────────────────────────────────────────────────────

    def assume(self, key: str, pod: Pod, node: str) -> None:
        """Count *pod* on *node* from now on."""
        self.table.add_pod(key, self._class_of(pod), node)

    def _class_of(self, pod: Pod) -> PodClass:
        if self._asked[0] is not pod:  # a pod is placed and then assumed: work its class out once
            self._asked = (pod, self.classes.of(pod))
        return self._asked[1]

    def reserve(self, pod: Pod, node: str) -> list[Reservation]:
        """Promise *pod* what it needs on *node* beyond room: volumes, devices."""
        plugins = self.feasibility(self._class_of(pod)).bound.of_pods
        made = [plugin.reserve(node) for plugin in plugins if hasattr(plugin, "reserve")]
        return [reservation for reservation in made if reservation is not None]

    def deallocatable(self, pod: Pod) -> ResourceClaim | None:
        """PostFilter: return a claim of *pod* that fits nowhere and that nobody else uses, after `place` said no."""
        plugins = self.feasibility(self._class_of(pod)).bound.of_pods
        found = (plugin.deallocatable() for plugin in plugins if hasattr(plugin, "deallocatable"))
        return next((claim for claim in found if claim is not None), None)

    def forget(self, key: str) -> None:
        """Stop counting the pod *key*."""
        self.table.remove_pod(key)

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def _feasible(
        self, feasibility: Feasibility, rows: Rows, nominated: Mapping[str, list[PodClass]]
    ) -> Bools:
        base = feasibility.feasible()
        feasible: Bools = base
        if rows is not self.table.ordered:  # fewer than all
            feasible = np.zeros(self.table.size, np.bool_)
            feasible[rows] = base[rows]
        if feasible.any():
            for plugin in feasibility.bound.domain_filters:
                if getattr(plugin, "lazy", False):
                    left = rows[feasible[rows]]
                    feasible[left] = plugin.codes(left) == 0
                else:
                    feasible &= plugin.codes(slice(0, self.table.size)) == 0
        for node, rivals in nominated.items():
            row = self.table.row_of.get(node)
            if row is not None and feasible[row] and not self._leaves_room(feasibility, row, rivals):
                feasible[row] = False
        return feasible

    def _leaves_room(self, feasibility: Feasibility, row: int, rivals: list[PodClass]) -> bool:
        """Return whether the row still takes the pod with the nominated *rivals* counted on it."""
        name = self._name(row)
        keys = [f"\x00nominated/{number}" for number in range(len(rivals))]
        for key, rival in zip(keys, rivals, strict=True):
            self.table.add_pod(key, rival, name)
        try:
            return not feasibility.statuses(np.array([row], np.int64))
        finally:
            for key in keys:
                self.table.remove_pod(key)

    def _prefilter(self, feasibility: Feasibility) -> Diagnosis | None:
        """Return why the pod fits nowhere before any node is looked at, or None."""
        statuses: list[Status] = []
        for plugin in feasibility.bound.of_pods:
            status = plugin.prefilter()
            if status is not None and status.code.rejected:
                statuses.append(status)
                if status.code is Code.UNRESOLVABLE:
                    break  # nothing that follows could change it
        if not statuses:
            return None
        return Diagnosis(
            len(self.table),
            prefilter=", ".join(status.message for status in statuses),
            plugins=frozenset(status.plugin for status in statuses),
            pending=frozenset(status.plugin for status in statuses if status.code is Code.PENDING),
        )

    def _narrow(self, feasibility: Feasibility) -> tuple[Rows, Status] | Diagnosis:
        """Return the rows that PreFilter leaves and what it says of the others, or why it leaves none."""
        plugins = sorted(name for name, _ in feasibility.bound.only)
        names: set[str] = set.intersection(*(names for _, names in feasibility.bound.only))
        if any(name == "NodeAffinity" and not left for name, left in feasibility.bound.only):
            return Diagnosis(len(self.table), prefilter=CONFLICT, plugins=frozenset({"NodeAffinity"}))
        if not names:
            text = (
                f"node(s) didn't satisfy plugin {plugins[0]}"
                if len(plugins) == 1
                else f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"
            )
            return Diagnosis(len(self.table), prefilter=text, plugins=frozenset(plugins))
        rows = sorted(
            (self.table.row_of[name] for name in names if name in self.table.row_of),
            key=lambda row: int(self.table.rank[row]),
        )
        status = Status(
            Code.UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]",), plugins[0]
        )
        return np.array(rows, np.int64), status

    def _sampled(self, feasible: Bools, rows: Rows) -> Bools:
        """Return the feasible nodes that Kubernetes' sampling would have found, in its order."""
        share = self.profile.arguments.percentage_of_nodes_to_score
        if share is None or not len(rows):
            return feasible
        wanted = nodes_to_find(len(rows), share)
        start = self._start % len(rows)
        turned = np.concatenate([rows[start:], rows[:start]])
        found = np.cumsum(feasible[turned])
        looked = int(np.searchsorted(found, wanted)) + 1 if found[-1] >= wanted else len(turned)
        sample: Bools = np.zeros(len(feasible), np.bool_)
        sample[turned[:looked]] = feasible[turned[:looked]]
        self._start = (start + looked) % len(self.table)
        return sample

    def _choose(self, totals: Ints, feasible: Bools) -> int:
        open_totals = np.where(feasible, totals, -1)  # ten times as fast as a maximum with `where`
        candidates = np.flatnonzero(open_totals == open_totals[open_totals.argmax()])
        if self._rng is not None:
            return int(
                self._rng.choice(sorted(candidates.tolist(), key=lambda row: int(self.table.rank[row])))
            )
        return int(candidates[self.table.rank[candidates].argmin()])

    def _diagnose(
        self,
        feasibility: Feasibility,
        rows: Rows,
        absent: Status | None,
        nominated: Mapping[str, list[PodClass]] | None = None,
    ) -> Diagnosis:
        found = feasibility.statuses(rows)
        looked_at = set(rows.tolist()) if nominated else set()
        for node, rivals in (nominated or {}).items():
            row = self.table.row_of.get(node)
            if (
                row is not None and row in looked_at
            ):  # asked with the rivals first: what is then said is what is told
                found |= self._statuses_with(feasibility, row, rivals)
        plugins = {status.plugin for status in found.values()} | ({absent.plugin} if absent else set())
        statuses = {self._name(row): status for row, status in found.items()}
        return Diagnosis(len(self.table), statuses, absent, plugins=frozenset(plugins))

    def _statuses_with(self, feasibility: Feasibility, row: int, rivals: list[PodClass]) -> dict[int, Status]:
        name = self._name(row)
        keys = [f"\x00nominated/{number}" for number in range(len(rivals))]
        for key, rival in zip(keys, rivals, strict=True):
            self.table.add_pod(key, rival, name)
        try:
            return feasibility.statuses(np.array([row], np.int64))
        finally:
            for key in keys:
                self.table.remove_pod(key)

    def _name(self, row: int) -> str:
        node = self.table.nodes[row]
        assert node is not None
        return node.name


def nodes_to_find(nodes: int, percentage: int) -> int:
    """Return how many feasible nodes Kubernetes looks for before it stops.

    >>> [nodes_to_find(n, 0) for n in (50, 100, 500, 1000, 5000, 6000)]
    [50, 100, 230, 420, 500, 300]
    """
    if nodes < _LEAST_TO_FIND or percentage >= 100:
        return nodes
    share = percentage or max(50 - nodes // 125, 5)
    return max(nodes * share // 100, _LEAST_TO_FIND)
