"""Which of these pods tolerate the taints of which of these nodes, all at once?

Clusters repeat themselves: thousands of nodes carry a few hundred taint lists, and a hundred thousand pods a few
hundred toleration lists. Each distinct toleration is held against each distinct taint once; everything else is bit
arithmetic on the distinct lists, so the cost grows with what is distinct and not with nodes × pods.
The plain loop over `untolerated` is the definition; a property test holds this against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from weir.gates import Gates
from weir.objects.core import Taint, Toleration
from weir.taints.toleration import BLOCKING, Evaluate, tolerates

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
        taints = _Numbered()
        masks = [
            sum({1 << taints.number(taint) for taint in taint_list if taint.effect in effects})
            for taint_list in taint_lists
        ]
        judge = _Judge(taints.items, gates, evaluate)
        verdicts = np.empty((len(toleration_lists), len(masks)), dtype=np.bool_)
        for row, entries in enumerate(toleration_lists):
            refused = ~judge.tolerated(entries)
            verdicts[row] = [not mask & refused for mask in masks]
        self.comparisons = judge.comparisons
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


class _Numbered:
    """Gives each distinct taint a number in order of appearance."""

    def __init__(self) -> None:
        self.items: list[Taint] = []
        self._numbers: dict[tuple[str, str, str], int] = {}

    def number(self, taint: Taint) -> int:
        key = (taint.key, taint.value, taint.effect)
        found = self._numbers.setdefault(key, len(self.items))
        if found == len(self.items):
            self.items.append(taint)
        return found


class _Judge:
    """Holds each distinct toleration against the taints it can be about, once."""

    def __init__(self, taints: Sequence[Taint], gates: Gates, evaluate: Evaluate | None) -> None:
        self.comparisons = 0
        self._taints, self._gates, self._evaluate = taints, gates, evaluate
        self._by_key: dict[str, list[int]] = {}
        for number, taint in enumerate(taints):
            self._by_key.setdefault(taint.key, []).append(number)
        self._everything: Final = range(len(taints))
        self._known: dict[tuple[str, str, str, str, str], int] = {}

    def tolerated(self, entries: Sequence[Toleration]) -> int:
        """Return the taints that some entry tolerates, as bits."""
        bits = 0
        for entry in entries:
            found = self._known.get(entry.identity)
            if found is None:
                found = self._known[entry.identity] = self._hold(entry)
            bits |= found
        return bits

    def _hold(self, entry: Toleration) -> int:
        # Only an entry without a key, or with an expression, can be about taints of every key.
        anywhere = entry.expression or not entry.key
        candidates: Iterable[int] = self._everything if anywhere else self._by_key.get(entry.key, ())
        bits = 0
        for number in candidates:
            self.comparisons += 1
            if tolerates(entry, self._taints[number], self._gates, self._evaluate):
                bits |= 1 << number
        return bits


def _distinct(lists: Iterable[Sequence[Taint] | Sequence[Toleration]]) -> tuple[list[tuple], Indices]:  # type: ignore[type-arg]
    """Return the distinct lists in order of appearance, and for each given list which one it is."""
    numbers: dict[tuple, int] = {}  # type: ignore[type-arg]
    classes = [numbers.setdefault(tuple(entries), len(numbers)) for entries in lists]
    return list(numbers), np.asarray(classes, dtype=np.intp)
