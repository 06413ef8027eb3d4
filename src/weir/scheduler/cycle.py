"""Scheduling cycle: the node for one pod, or why there is none.

Spec: core.md 3.1 "Cycle", 3.3, 3.5. Pure: the engine holds the node table and the feasibility per pod class; binding,
events and retries are the caller's. A known class costs the rows that changed since its last use. Classes whose
spread or affinity moves whole domains, nominated pods that need room, and sampling evaluate all rows through the same
filters and scores. Pods with claims evaluate the best nodes first (weir.scheduler.best_first).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.resource import ResourceClaim
from weir.scheduler.best_by_domain import best_by_domain
from weir.scheduler.best_first import best_accepted
from weir.scheduler.claims import Claims
from weir.scheduler.feasibility import Feasibility
from weir.scheduler.framework import (
    REASONS_BYTES,
    Code,
    DefaultSelector,
    Diagnosis,
    Handle,
    NoNodes,
    PluginError,
    Reservation,
    Scope,
    Status,
)
from weir.scheduler.judged_taints import JudgedTaints
from weir.scheduler.node_columns import Bools, Ints, Rows
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.registry import IN_TREE_REGISTRY, Registry
from weir.scheduler.plugins.taint_toleration import NAME as TAINT_TOLERATION
from weir.scheduler.pod_class import PodClass, PodClasses
from weir.scheduler.pod_counts import Namespaces, PodCounts
from weir.scheduler.profile import Profile, ProfileArguments
from weir.scheduler.profiling import PluginProfiler
from weir.scheduler.volumes import Storage

if TYPE_CHECKING:
    from weir.taints.expression import Expressions

#: Memory for the feasibility of classes before the least recently used is dropped, and what one that is spread holds.
_FEASIBILITY_BYTES: Final = 128 * 2**20
_BYTES_A_NODE: Final = 36
_LEAST_CLASSES: Final = 64
_MOST_CLASSES: Final = 4096
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
        expressions: Expressions | None = None,
        default_selector: DefaultSelector | None = None,
        storage: Storage | None = None,
        claims: Claims | None = None,
        share_id: Callable[[], str] = lambda: "",
        registry: Registry = IN_TREE_REGISTRY,
        rng: random.Random | None = None,
    ) -> None:
        """Without *storage* volumes are not looked at, without *claims* devices are not."""
        self.table = NodeTable() if table is None else table  # an empty table counts as false
        self.pod_counts = PodCounts(self.table, namespaces)
        self.judged_taints = JudgedTaints(gates, expressions)
        handle = Handle(
            self.table,
            self.pod_counts,
            gates,
            arguments or ProfileArguments(),
            self.judged_taints,
            self.judged_taints.evaluate,
            default_selector,
            storage,
            claims,
            share_id,
        )
        self.profile = Profile(handle, registry)
        self.classes = PodClasses()
        self._feasibilities: dict[PodClass, Feasibility] = {}
        self._rng = rng  #: breaks ties at random when given; the first found wins otherwise
        self._takes_the_best = rng is None and self.profile.arguments.percentage_of_nodes_to_score is None
        self._start = 0  #: where sampling looks first
        empty = Pod()
        self._last = (empty, self.classes.of(empty))

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def place(self, pod: Pod, nominated: Mapping[str, list[PodClass]] | None = None) -> Placement | Diagnosis:
        """Return where *pod* goes, or why nowhere; it leaves room for *nominated* pods, by node."""
        if not len(self.table):
            raise NoNodes
        feasibility = self.start_cycle(pod)
        plugins = feasibility.plugins
        short = (
            not plugins.needs_all_nodes
            and not plugins.node_names
            and not plugins.pre_filters
            and not nominated
            and not plugins.pre_score
            and self._takes_the_best
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
        if feasibility.plugins.node_names:
            narrowed = self._narrow(feasibility)
            if isinstance(narrowed, Diagnosis):
                return narrowed
            rows, absent = narrowed
        rejected = self._pre_filter(feasibility)
        if rejected is not None:
            return rejected
        if not nominated and rows is self.table.ordered and self._takes_the_best:
            best = best_accepted(feasibility)
            if best is not None:
                return Placement(self._name(best), -1, reserves=bool(feasibility.plugins.reserves))
            spread = best_by_domain(feasibility)
            if spread is not None:
                reserves = bool(feasibility.plugins.reserves)
                return Placement(self._name(spread.row), spread.feasible, spread.score, reserves)
        if len(rows) == 1 and not nominated and self._takes_the_best:  # the others need not be judged
            if feasibility.statuses(rows):
                return self._diagnose(feasibility, rows, absent)
            return Placement(self._name(int(rows[0])), 1, reserves=bool(feasibility.plugins.reserves))
        feasible = self._sampled(self._feasible(feasibility, rows, nominated), rows)
        count = int(np.count_nonzero(feasible))
        if count == 0:
            return self._diagnose(feasibility, rows, absent, nominated)
        reserves = bool(feasibility.plugins.reserves)
        if count == 1:
            return Placement(self._name(int(feasible.argmax())), 1, reserves=reserves)
        if feasibility.plugins.pre_score:
            raise PluginError(feasibility.plugins.pre_score)
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
        feasibility = self.start_cycle(pod)
        if self._pre_filter(feasibility) is not None or feasibility.statuses(np.array([row], np.int64)):
            return None
        here = (nominated or {}).get(node, [])
        if here and self._statuses_with(feasibility, row, here):
            return None
        return Placement(node, 1, reserves=bool(feasibility.plugins.reserves))

    def fitting(self, pod: Pod, nominated: Mapping[str, list[PodClass]] | None = None) -> frozenset[str]:
        """Return the nodes that take *pod*: none where a filter fails on one of them, which ends the attempt."""
        feasibility = self.start_cycle(pod)
        try:
            feasible = self._feasible(feasibility, self.table.ordered, nominated or {})
            flags = feasible.tolist()
            return frozenset(name for name, row in self.table.row_of.items() if flags[row])
        except PluginError:
            return frozenset()

    def scores(self, pod: Pod) -> dict[str, int]:
        """Return the total score of every feasible node, by name."""
        feasibility = self.start_cycle(pod)
        feasible = self._feasible(feasibility, self.table.ordered, {})
        totals = feasibility.totals(feasible)
        return {self._name(int(row)): int(totals[row]) for row in np.flatnonzero(feasible)}

    def statuses(self, pod: Pod) -> dict[str, Status]:
        """Return the status of every node that refuses the pod, by name."""
        feasibility = self.start_cycle(pod)
        found = feasibility.statuses(self.table.ordered)
        return {self._name(row): status for row, status in found.items()}

    def start_cycle(self, pod: Pod) -> Feasibility:
        """Return the feasibility of the class of *pod*, with its plugins set to this pod."""
        feasibility = self.feasibility(pod)
        for plugin in feasibility.plugins.pre_filters:
            plugin.start_cycle(pod)
        return feasibility

    def feasibility(self, pod: Pod) -> Feasibility:
        """Return the feasibility of the class of *pod*, created on first use."""
        pod_class = self._class_of(pod)
        feasibility = self._feasibilities.pop(pod_class, None)
        if feasibility is None or feasibility.plugins.stale:
            feasibility = Feasibility(pod_class, self.table, self.profile.for_class(pod_class))
            room = _FEASIBILITY_BYTES // (_BYTES_A_NODE * len(self.table.alive))
            most = min(max(room, _LEAST_CLASSES), _MOST_CLASSES)
            while len(self._feasibilities) >= most:
                self._feasibilities.pop(next(iter(self._feasibilities)))
                self.classes.forget(2 * most)
        self._feasibilities[pod_class] = feasibility  # the most recently used is last
        return feasibility

    def profile_plugins(self, profiler: PluginProfiler) -> None:
        """Time every call of a plugin from now on, expressions of tolerations included."""
        self.profile.profiler = profiler
        judge = self.judged_taints.judge
        judge.advance = profiler.timed(TAINT_TOLERATION, "Filter", judge.advance)  # type: ignore[method-assign]

    def time_plugins(self, feasibility: Feasibility) -> Iterator[tuple[str, float]]:
        """Yield how long each filter takes to judge one node, for a sample of attempts."""
        rows = self.table.ordered[:1]
        for plugin in feasibility.plugins.filters:
            if plugin.scope is Scope.SEARCH:
                continue  # judges rows that the attempt did not need
            began = perf_counter()
            plugin.codes(rows)
            yield plugin.name, perf_counter() - began

    # ── accounting ───────────────────────────────────────────────────────────────────────────────

    def assume(self, key: str, pod: Pod, node: str) -> None:
        """Count *pod* on *node* from now on."""
        self.table.add_pod(key, self._class_of(pod), node)

    def _class_of(self, pod: Pod) -> PodClass:
        if self._last[0] is not pod:  # a pod is placed and then assumed: work its class out once
            self._last = (pod, self.classes.of(pod))
        return self._last[1]

    def reserve(self, pod: Pod, node: str) -> list[Reservation]:
        """Promise *pod* what it needs on *node* beyond room: volumes, devices."""
        made = [plugin.reserve(node) for plugin in self.feasibility(pod).plugins.reserves]
        return [reservation for reservation in made if reservation is not None]

    def post_filter(self, pod: Pod) -> ResourceClaim | None:
        """Return a claim of *pod* that fits nowhere and that no other pod uses, after `place` found no node."""
        found = (plugin.post_filter() for plugin in self.feasibility(pod).plugins.post_filters)
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
            for plugin in feasibility.plugins.cluster_filters:
                if plugin.scope is Scope.SEARCH:
                    left = rows[feasible[rows]]
                    feasible[left] = plugin.codes(left) == 0
                else:
                    feasible &= plugin.codes(slice(0, self.table.size)) == 0
        for node, pods in nominated.items():
            row = self.table.row_of.get(node)
            if row is not None and feasible[row] and self._statuses_with(feasibility, row, pods):
                feasible[row] = False
        return feasible

    def _pre_filter(self, feasibility: Feasibility) -> Diagnosis | None:
        """Return why the pod fits nowhere before any node is looked at, or None."""
        statuses: list[Status] = []
        for plugin in feasibility.plugins.pre_filters:
            status = plugin.pre_filter()
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
        """Return the rows that PreFilter leaves and the status of the others, or why it leaves none."""
        plugins = sorted(name for name, _ in feasibility.plugins.node_names)
        names = frozenset.intersection(*(names for _, names in feasibility.plugins.node_names))
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
        for node, pods in (nominated or {}).items():
            row = self.table.row_of.get(node)
            if (
                row is not None and row in looked_at
            ):  # evaluated with the nominated pods first: that status counts
                found |= self._statuses_with(feasibility, row, pods)
        plugins = {status.plugin for status in found.values()} | ({absent.plugin} if absent else set())
        statuses = {self._name(row): status for row, status in found.items()}
        bound = None if self.profile.arguments.upstream_reasons else REASONS_BYTES
        return Diagnosis(len(self.table), statuses, absent, plugins=frozenset(plugins), most_bytes=bound)

    def _statuses_with(
        self, feasibility: Feasibility, row: int, nominated: list[PodClass]
    ) -> dict[int, Status]:
        """Return the status of the row with the *nominated* pods counted on it, if it refuses the pod then."""
        name = self._name(row)
        keys = [f"\x00nominated/{number}" for number in range(len(nominated))]
        for key, pod in zip(keys, nominated, strict=True):
            self.table.add_pod(key, pod, name)
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
