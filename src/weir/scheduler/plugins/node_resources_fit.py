"""NodeResourcesFit: the pod's requests must fit the node's free resources; scores by allocation strategy.

Spec: core.md 3.7.5. All shortages of a node are reported. Preemption cannot help a request above the node's
allocatable. Scoring counts a default for containers without requests, so that many of them still spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from weir.objects.core import Pod
from weir.objects.requests import node_allocatable, pod_requests
from weir.scheduler.claims import Claims
from weir.scheduler.framework import (
    MAX_NODE_SCORE,
    Code,
    Extensions,
    FilterPlugin,
    Normalize,
    Plugin,
    Scope,
    ScorePlugin,
    Status,
)
from weir.scheduler.node_columns import Ids, Ints
from weir.scheduler.node_table import (
    ALLOC_CPU,
    ALLOC_MEMORY,
    ALLOC_PODS,
    NONZERO_CPU,
    NONZERO_MEMORY,
    USED_CPU,
    USED_MEMORY,
    USED_PODS,
    NodeTable,
)
from weir.scheduler.plugins.extended_resources import class_offers, offered_by_devices
from weir.scheduler.pod_class import PodClass
from weir.scheduler.profile_arguments import FitArguments
from weir.scheduler.queueing_hints import (
    DEVICE_CLASS_ADD,
    DEVICE_CLASS_UPDATE,
    NODE_ADD,
    NODE_ALLOCATABLE,
    OWN_SCALE_DOWN,
    POD_DELETE,
    POD_SCALE_DOWN,
    ClusterEvent,
    QueueingHint,
    always,
)
from weir.scheduler.reasons import Reason, TooFew, TooManyPods

NAME: Final = "NodeResourcesFit"
_UNRESOLVABLE: Final = 1
_FIRST_REASON: Final = 2


class NodeResourcesFit(Plugin):
    """The plugin; with *claims*, devices may offer extended resources where no device plugin does."""

    name = NAME

    def __init__(
        self, table: NodeTable, arguments: FitArguments | None = None, claims: Claims | None = None
    ) -> None:
        self._table, self._arguments, self._claims = table, arguments or FitArguments(), claims

    def for_class(self, pod: PodClass) -> Extensions:
        delegated = offered_by_devices(pod, self._claims) if self._claims is not None else frozenset[str]()
        bound = BoundNodeResourcesFit(pod, self._table, self._arguments, delegated)
        return Extensions(filter=bound, score=bound)

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: self._now_fits,
            NODE_ALLOCATABLE: self._now_fits,
            POD_DELETE: always,
            POD_SCALE_DOWN: self._frees_resources,
            OWN_SCALE_DOWN: always,
            DEVICE_CLASS_ADD: self._class_offers,
            DEVICE_CLASS_UPDATE: self._class_offers,
        }

    def _now_fits(self, pod: Pod, event: ClusterEvent) -> bool:
        wanted = {r: n for r, n in pod_requests(pod).items() if n > 0}
        new = node_allocatable(event.new) or {}
        if any(new.get(resource, 0) < amount for resource, amount in wanted.items()):
            return False
        if event.old is None:
            return True
        old = node_allocatable(event.old) or {}
        return any(new.get(resource, 0) > old.get(resource, 0) for resource in {*wanted, "pods"})

    def _frees_resources(self, pod: Pod, event: ClusterEvent) -> bool:
        before, after = pod_requests(event.old, set_aside=True), pod_requests(event.new, set_aside=True)
        return any(after.get(r, 0) < before.get(r, 0) for r, n in pod_requests(pod).items() if n > 0)

    def _class_offers(self, pod: Pod, event: ClusterEvent) -> bool:
        return class_offers(event.new, pod)


class BoundNodeResourcesFit(FilterPlugin, ScorePlugin):
    """The check for one pod class; weir.scheduler.resource_scores computes the same for many classes at once."""

    name = NAME
    scope = Scope.PODS
    normalize = Normalize.NONE

    def __init__(
        self,
        pod: PodClass,
        table: NodeTable,
        arguments: FitArguments,
        delegated: frozenset[str] = frozenset(),
    ) -> None:
        self._table, self._pod, self.arguments, self.delegated = table, pod, arguments, delegated
        self.cpu = pod.requests.get("cpu", 0)
        self.memory = pod.requests.get("memory", 0)
        others = {
            name: amount
            for name, amount in pod.requests.items()
            if amount > 0 and name not in ("cpu", "memory", "pods")
        }
        storage = (
            {"ephemeral-storage": others.pop("ephemeral-storage")} if "ephemeral-storage" in others else {}
        )
        scalars = {name: others[name] for name in sorted(others) if not arguments.ignores(name)}
        #: requests beyond CPU and memory, in the order their shortages are named
        self.others: dict[str, int] = {**storage, **scalars}
        self._names = [TooManyPods.words, *map(TooFew.words_for, ("cpu", "memory", *self.others))]

    def codes(self, rows: Any) -> Ids:
        """Return the shortages of each node as bits, the lowest saying that preemption cannot help."""
        state = self._table.state[:, rows]
        codes: Ids = (state[USED_PODS] + 1 > state[ALLOC_PODS]).astype(np.int32) * _FIRST_REASON
        bit = _FIRST_REASON
        for name, request, alloc, used in (
            ("cpu", self.cpu, state[ALLOC_CPU], state[USED_CPU]),
            ("memory", self.memory, state[ALLOC_MEMORY], state[USED_MEMORY]),
            *(
                (name, amount, self._table.resource(name).alloc[rows], self._table.resource(name).used[rows])
                for name, amount in self.others.items()
            ),
        ):
            bit *= 2
            if request > 0:
                ours = alloc > 0 if name in self.delegated else True
                codes[(request > alloc - used) & ours] |= bit
                codes[(request > alloc) & ours] |= _UNRESOLVABLE
        return codes

    def status(self, code: int) -> Status:
        reasons = tuple(name for i, name in enumerate(self._names) if code & (_FIRST_REASON << i))
        return Status(Code.UNRESOLVABLE if code & _UNRESOLVABLE else Code.UNSCHEDULABLE, reasons, NAME)

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return every shortage of the node, in the order `status` names them."""
        state = self._table.state
        found: list[Reason] = []
        if code & _FIRST_REASON:
            found.append(TooManyPods(int(state[ALLOC_PODS, row]), int(state[USED_PODS, row])))
        amounts = [
            ("cpu", self.cpu, state[ALLOC_CPU, row], state[USED_CPU, row]),
            ("memory", self.memory, state[ALLOC_MEMORY, row], state[USED_MEMORY, row]),
        ]
        for name, amount in self.others.items():
            column = self._table.resource(name)
            amounts.append((name, amount, column.alloc[row], column.used[row]))
        for place, (name, amount, alloc, used) in enumerate(amounts):
            if code & (_FIRST_REASON << (place + 1)):
                found.append(TooFew(name, amount, int(alloc), int(used)))
        return tuple(found)

    def score(self, rows: Any) -> Ints:
        """Return each node's score by the configured strategy."""
        match self.arguments.strategy:
            case "LeastAllocated":
                return self._weighted(rows, least_allocated)
            case "MostAllocated":
                return self._weighted(rows, most_allocated)
        return self._ratio(rows)

    def _amounts(self, resource: str, rows: Any) -> tuple[Ints, Ints] | None:
        """Return capacity and what would be used with this pod, or None for a resource that is not scored."""
        state = self._table.state
        if resource == "cpu":
            return state[ALLOC_CPU, rows], state[NONZERO_CPU, rows] + self._pod.nonzero_cpu
        if resource == "memory":
            return state[ALLOC_MEMORY, rows], state[NONZERO_MEMORY, rows] + self._pod.nonzero_memory
        wanted = self._pod.requests.get(resource, 0)
        if not wanted and resource != "ephemeral-storage":
            return None
        column = self._table.resource(resource)
        return column.alloc[rows], column.used[rows] + wanted

    def _weighted(self, rows: Any, score: Any) -> Ints:
        total: Any = 0
        weights: Any = 0
        for resource, weight in self.arguments.scored.items():
            amounts = self._amounts(resource, rows)
            if amounts is None:
                continue
            capacity, used = amounts
            there = capacity > 0
            total = total + np.where(there, score(np.maximum(capacity, 1), used) * weight, 0)
            weights = weights + there * weight
        count = len(self._table.alive[rows])
        total, weights = np.broadcast_to(total, count), np.broadcast_to(weights, count)
        result: Ints = np.where(weights > 0, total // np.maximum(weights, 1), 0)
        return result

    def _ratio(self, rows: Any) -> Ints:
        count = len(self._table.alive[rows])
        total, weights = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for resource, weight in self.arguments.scored.items():
            amounts = self._amounts(resource, rows)
            if amounts is None:
                continue
            capacity, used = amounts
            there = capacity > 0
            full = np.maximum(capacity, 1)
            utilisation = np.where(used > capacity, 100, 100 * used // full)
            score = np.where(there, broken_line(utilisation, self.arguments.shape), 0)
            counts = score > 0  # a resource that scores nothing is left out of the mean
            total += np.where(counts, score * weight, 0)
            weights += np.where(counts, weight, 0)
        # rounded half away from zero; scores are never negative
        result: Ints = np.where(weights > 0, (2 * total + weights) // np.maximum(2 * weights, 1), 0)
        return result


def least_allocated(capacity: Ints, used: Ints) -> Ints:
    """Return 100 for an empty resource, 0 for a full one."""
    score: Ints = np.where(used > capacity, 0, (capacity - used) * MAX_NODE_SCORE // capacity)
    return score


def most_allocated(capacity: Ints, used: Ints) -> Ints:
    """Return 100 for a full resource, 0 for an empty one."""
    score: Ints = np.minimum(used, capacity) * MAX_NODE_SCORE // capacity
    return score


def broken_line(utilisation: Ints, shape: Sequence[tuple[int, int]]) -> Ints:
    """Return the score at each utilisation between the points of *shape*, flat outside of them."""
    points = [(at, score * 10) for at, score in shape]
    result = np.full(len(utilisation), points[-1][1], np.int64)
    for (left, low), (right, high) in reversed(list(pairwise(points))):
        between = utilisation <= right
        # Go divides towards zero, also on a falling line
        slope = (high - low) * (utilisation - left)
        step = np.sign(slope) * (np.abs(slope) // max(right - left, 1))
        result = np.where(between, low + step, result)
    final: Ints = np.where(utilisation <= points[0][0], points[0][1], result)
    return final
