"""Numpy columns with one row per node: interned label values and resource amounts.

A label column holds a small number per distinct value, so that a selector is evaluated once per value. Values that no
node has any more are dropped and the others renumbered; `generation` then changes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

#: So many distinct taint lists, or values of one label, may be there before those that no node has are forgotten.
LEAST_INTERNED: Final = 256


class LabelColumn:
    """One label of every node: a small number for each distinct value, -1 where it is missing."""

    __slots__ = ("_most", "generation", "ids", "numbers", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, -1, np.int32)
        self.values: list[str] = []
        self.numbers: dict[str, int] = {}
        self.generation = 0  #: changes when values get other numbers
        self._most = LEAST_INTERNED

    def put(self, row: int, value: str | None) -> None:
        if value is None:
            self.ids[row] = -1
            return
        number = self.numbers.get(value)
        if number is None:
            number = self.numbers[value] = len(self.values)
            self.values.append(value)
        self.ids[row] = number
        if len(self.values) > self._most:
            self._forget_unused()

    def _forget_unused(self) -> None:
        """Keep the values that nodes have, so that values once seen do not add up."""
        used, self.ids[:] = renumbered(self.ids)
        self.values = [self.values[number] for number in used]
        self.numbers = {value: number for number, value in enumerate(self.values)}
        self._most = max(LEAST_INTERNED, 2 * len(self.values))
        self.generation += 1


def renumbered(ids: Ids) -> tuple[list[int], Ids]:
    """Return the numbers in use, without -1, and *ids* with each replaced by its place among them."""
    used = np.unique(ids[ids >= 0])
    new = np.searchsorted(used, ids).astype(np.int32)
    return used.tolist(), np.where(ids >= 0, new, -1).astype(np.int32)


class ResourceColumn:
    """Allocatable and used amounts of one resource beyond CPU and memory."""

    __slots__ = ("alloc", "used")

    def __init__(self, capacity: int) -> None:
        self.alloc: Ints = np.zeros(capacity, np.int64)
        self.used: Ints = np.zeros(capacity, np.int64)
