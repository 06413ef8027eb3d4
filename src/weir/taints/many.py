"""Which of these pods tolerate the taints of which of these nodes, all at once?

Clusters repeat themselves: thousands of nodes carry a few hundred taint lists, and a hundred thousand pods a few
hundred toleration lists. Each distinct toleration meets each distinct taint once (weir.taints.judge); everything
else is arithmetic on the distinct lists, so the cost grows with what is distinct and not with nodes × pods.
The plain loop over `untolerated` is the definition; a property test holds this against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from weir.gates import Gates
from weir.objects.core import Taint, Toleration
from weir.taints.judge import TaintJudge
from weir.taints.toleration import BLOCKING, Evaluate

E = TypeVar("E")
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.intp]


class ToleranceTable:
    """The answer for every pod on every node, held as one row per distinct toleration list.

    >>> gpu = Taint("gpu", "1", "NoSchedule")
    >>> table = ToleranceTable([(gpu,), ()], [(), (Toleration("gpu", "Exists"),)], Gates())
    >>> [table.tolerates(pod, node) for pod in (0, 1) for node in (0, 1)]
    [False, True, True, True]
    """

    __slots__ = ("_node_class", "_pod_class", "_rows", "comparisons")

    comparisons: int  #: how many times a toleration was held against a taint

    def __init__(
        self,
        node_taints: Iterable[Sequence[Taint]],
        pod_tolerations: Iterable[Sequence[Toleration]],
        gates: Gates,
        effects: frozenset[str] = BLOCKING,
        evaluate: Evaluate | None = None,
    ) -> None:
        taint_lists, self._node_class = _distinct(node_taints)
        toleration_lists, self._pod_class = _distinct(pod_tolerations)
        judge = TaintJudge(gates, evaluate)
        members = [
            [judge.number(taint) for taint in taint_list if taint.effect in effects]
            for taint_list in taint_lists
        ]
        refuses = np.zeros((len(judge.taints), len(members)), np.float32)  # does the list hold the taint?
        for column, numbers in enumerate(members):
            refuses[numbers, column] = 1
        untolerated = np.zeros((len(toleration_lists), len(judge.taints)), np.float32)
        for row, entries in enumerate(toleration_lists):
            untolerated[row] = ~judge.tolerated(entries)
        self.comparisons = judge.comparisons
        # A pod is kept off by a list when the two have an untolerated taint in common.
        verdicts = (untolerated @ refuses) == 0
        self._rows: Bools = verdicts[:, self._node_class]

    @property
    def shape(self) -> tuple[int, int]:
        """How many pods and nodes there are."""
        return len(self._pod_class), len(self._node_class)

    def tolerates(self, pod: int, node: int) -> bool:
        """Return whether the pod tolerates every taint of the node, by their positions."""
        return bool(self._rows[self._pod_class[pod], node])

    def nodes_for(self, pod: int) -> Bools:
        """Return one flag a node: whether the pod tolerates it."""
        row: Bools = self._rows[self._pod_class[pod]]
        return row

    def counts(self) -> npt.NDArray[np.int64]:
        """Return, for every pod, how many nodes it tolerates."""
        tolerated: npt.NDArray[np.int64] = self._rows.sum(axis=1, dtype=np.int64)
        return tolerated[self._pod_class]

    def packed(self) -> Bytes:
        """Return the whole pods × nodes answer, one bit each, eight nodes a byte."""
        return np.packbits(self._rows, axis=1)[self._pod_class]


def _distinct(lists: Iterable[Sequence[E]]) -> tuple[list[tuple[E, ...]], Indices]:
    """Return the distinct lists in order of appearance, and for each given list which one it is."""
    numbers: dict[tuple[E, ...], int] = {}
    classes = [numbers.setdefault(tuple(entries), len(numbers)) for entries in lists]
    return list(numbers), np.asarray(classes, dtype=np.intp)
