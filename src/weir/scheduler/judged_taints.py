"""Verdicts on the taints of the node table, shared by all pod classes and by the plugins that read taints.

Spec: core.md 3.7.1. Each distinct taint is judged once per toleration list (weir.taints.judge).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weir.gates import Gates
from weir.scheduler.node_table import NodeTable
from weir.taints.judge import TaintJudge
from weir.taints.toleration import BLOCKING, SCORING

if TYPE_CHECKING:
    from weir.taints.expression import Expressions


class _Lists:
    """The distinct taint lists of a table, flattened for one set of effects."""

    def __init__(self, judge: TaintJudge, effects: frozenset[str]) -> None:
        self._judge, self._effects = judge, effects
        self.members: list[int] = []  # numbers of the taints of all lists, one list after the other
        self.starts: list[int] = []  # where each list that has any begins
        self.owners: list[int] = []  # which list that is
        self.count = 0  # lists seen
        self.arrays: tuple[Any, Any, Any] = (np.zeros(0, np.int64),) * 3

    def read(self, table: NodeTable) -> None:
        """Take in the lists that are new in *table*."""
        if self.count == len(table.taint_lists):
            return
        for number in range(self.count, len(table.taint_lists)):
            taints = [t for t in table.taint_lists[number] if t.effect in self._effects]
            if taints:
                self.owners.append(number)
                self.starts.append(len(self.members))
                self.members += map(self._judge.number, taints)
        self.count = len(table.taint_lists)
        self.arrays = tuple(np.asarray(x, np.int64) for x in (self.members, self.starts, self.owners))  # type: ignore[assignment]

    def carried(self, table: NodeTable) -> npt.NDArray[np.int64]:
        """Return the numbers of the taints in lists that nodes of *table* carry."""
        members, starts, owners = self.arrays
        lists = np.zeros(self.count, np.bool_)
        lists[table.taint_list] = True
        return members[np.repeat(lists[owners], np.diff(starts, append=len(members)))]


class JudgedTaints:
    """What is known of a table's taints, shared by all pod classes and by the plugins that read taints."""

    def __init__(self, gates: Gates, expressions: Expressions | None = None) -> None:
        """Without *expressions* of its component, those shared by the process are used."""
        self.gates, self.expressions = gates, expressions
        self.evaluate = None if expressions is None else expressions.evaluate
        self.judge = TaintJudge(gates, self.evaluate)
        self._generation = 0
        self._nodes_version: tuple[int, int] | None = None
        self._start_over()

    def _start_over(self) -> None:
        self.hard = _Lists(self.judge, BLOCKING)
        self.soft = _Lists(self.judge, SCORING)

    def read(self, table: NodeTable) -> None:
        """Take in the lists that are new in *table*; when it forgot lists, forget their taints."""
        if self._nodes_version == table.nodes_version:
            return
        self._nodes_version = table.nodes_version
        if self._generation != table.taint_generation:
            self._generation = table.taint_generation
            self.judge.forget()
            self._start_over()
        self.hard.read(table)
        self.soft.read(table)
        self.judge.carry(np.concatenate([self.hard.carried(table), self.soft.carried(table)]))
