"""NodeResourcesBalancedAllocation: prefers nodes whose resource usage the pod balances.

Spec: core.md 3.7.5. Balance is 100 minus the spread of the used fractions; the score is the improvement. Real
requests count here, not the defaulted ones of NodeResourcesFit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from weir.scheduler.framework import MAX_NODE_SCORE, Extensions, Normalize, Plugin, Scope, ScorePlugin
from weir.scheduler.node_columns import Ints
from weir.scheduler.node_table import ALLOC_CPU, ALLOC_MEMORY, USED_CPU, USED_MEMORY, NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import QueueingHint

NAME: Final = "NodeResourcesBalancedAllocation"
Floats = npt.NDArray[np.float64]


class NodeResourcesBalancedAllocation(Plugin):
    name = NAME

    def __init__(self, table: NodeTable, resources: Sequence[str] = ("cpu", "memory")) -> None:
        self._table, self._resources = table, tuple(resources)

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the score; none for a pod that requests none of the resources."""
        if not any(pod.requests.get(resource, 0) for resource in self._resources):
            return Extensions()
        return Extensions(score=BalancedScore(pod, self._table, self._resources))

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {}  # it rejects no pod


class BalancedScore(ScorePlugin):
    """The plain definition of what weir.scheduler.resource_scores computes for many classes at once."""

    name = NAME
    scope = Scope.PODS
    normalize = Normalize.NONE

    def __init__(self, pod: PodClass, table: NodeTable, resources: tuple[str, ...]) -> None:
        self._pod, self._table, self.resources = pod, table, resources

    def score(self, rows: Any) -> Ints:
        with_pod, without = [], []
        for resource in self.resources:
            capacity, used = self._amounts(resource, rows)
            with_pod.append((capacity, used + self._pod.requests.get(resource, 0)))
            without.append((capacity, used))
        return improvement(balance(with_pod), balance(without))

    def _amounts(self, resource: str, rows: Any) -> tuple[Ints, Ints]:
        state = self._table.state
        if resource == "cpu":
            return state[ALLOC_CPU, rows], state[USED_CPU, rows]
        if resource == "memory":
            return state[ALLOC_MEMORY, rows], state[USED_MEMORY, rows]
        column = self._table.resource(resource)
        return column.alloc[rows], column.used[rows]


def improvement(with_pod: Ints, without: Ints) -> Ints:
    """Return 50 for an unchanged balance, more for a better one; Go's division cuts towards zero."""
    gain = 50 + with_pod - without
    score: Ints = 50 + np.sign(gain) * (np.abs(gain) // 2)
    return score


def balance(amounts: Sequence[tuple[Ints, Ints]]) -> Ints:
    """Return 100 for equal shares of all resources, less the more they differ."""
    count = len(amounts[0][0])
    shares = np.zeros((len(amounts), count))
    there = np.zeros((len(amounts), count), np.bool_)
    for i, (capacity, used) in enumerate(amounts):
        there[i] = capacity > 0
        shares[i] = np.minimum(used / np.maximum(capacity, 1), 1.0)
    known = there.sum(axis=0)
    deviation: Floats = np.zeros(count)
    if len(amounts) == 2:
        deviation = np.where(known == 2, np.abs(shares[0] - shares[1]) / 2, 0.0)
    elif len(amounts) > 2:
        shares = np.where(there, shares, 0.0)
        mean = shares.sum(axis=0) / np.maximum(known, 1)
        spread = np.where(there, (shares - mean) ** 2, 0.0).sum(axis=0)
        many = np.sqrt(spread / np.maximum(known, 1))
        # two of several resources are compared like a pair
        first_two = np.abs(_nth(shares, there, 0) - _nth(shares, there, 1)) / 2
        deviation = np.where(known > 2, many, np.where(known == 2, first_two, 0.0))
    score: Ints = ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
    return score


def _nth(shares: Floats, there: npt.NDArray[np.bool_], which: int) -> Floats:
    """Return, for each node, the share of its first (0) or second (1) known resource."""
    order = np.cumsum(there, axis=0) - 1
    result: Floats = np.where(there & (order == which), shares, 0.0).sum(axis=0)
    return result
