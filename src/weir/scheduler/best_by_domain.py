"""Best node for a pod with spread constraints, found per group of nodes instead of per node.

Spread constraints treat nodes alike that have the same values of the labels they name and no pod counted by hostname.
The rows of a class are grouped by these values, with the best row per group, and the constraints are evaluated once
per group. Rows with pods counted by hostname are groups of their own. Scores normalized over feasible nodes depend on
which groups the constraints reject: if the highest raw score is in no remaining group, the result is None and all
nodes are evaluated.

Optimized form of weir.scheduler.cycle; tests/unit/scheduler/test_best_by_domain.py compares them; bench: the curve
`placement` of `python -m bench growth`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from weir.scheduler.feasibility import Feasibility
from weir.scheduler.framework import SpreadPlugin
from weir.scheduler.node_columns import Bools, Ids, Ints, Rows
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.spread_constraints import HOSTNAME
from weir.scheduler.resource_scores import RANK_BITS

#: Up to this many nodes one look at all of them costs no more.
LOOKS_AT_ALL: Final = 4_096
#: Rows of a block, as a power of two: the best of a group is found through the best of its blocks.
_BLOCK_BITS: Final = 5
#: So many groups are always kept apart; beyond that, as many as there are rows for each of them.
_FEW_GROUPS: Final = 64
_ROWS_A_GROUP_BITS: Final = 3
_MOST_GROUPINGS: Final = 16
_INFEASIBLE: Final = -1


class Best(NamedTuple):
    """The best row, how many rows take the pod, and what the best one scores (0 where it is the only one)."""

    row: int
    feasible: int
    score: int


def best_by_domain(feasibility: Feasibility) -> Best | None:
    """Return the best row; None when all have to be looked at to know it, or there is none."""
    spread = feasibility.plugins.spread
    if spread is None or len(feasibility.table) <= LOOKS_AT_ALL:
        return None
    kept = feasibility.kept_by_domain
    if kept is None:
        kept = feasibility.kept_by_domain = _Groups(feasibility, *spread)
    assert isinstance(kept, _Groups)
    return kept.best()


@dataclass(frozen=True)
class _Grouping:
    """The rows of a table by the values of some labels; blocks of rows belong to one group each."""

    group: Rows  #: of every row
    place: Rows  #: of every row, in the order of groups
    row: Rows  #: of every place, -1 where a block is not full
    first_block: Rows  #: of every group
    labels: Mapping[str, Ids]  #: of every group

    @staticmethod
    def of(table: NodeTable, keys: tuple[str, ...]) -> _Grouping | None:
        """Return the grouping by *keys*, of a hostname whether there is one; None where it has too many groups."""
        size = table.size
        group: Rows = np.zeros(size, np.int64)
        first: Rows = np.zeros(min(size, 1), np.int64)
        columns = {key: _ids(table, key, slice(0, size)) for key in keys}
        for ids in columns.values():
            mixed = group * (int(ids.max(initial=-1)) + 2) + ids + 1
            _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
            if len(first) > max(_FEW_GROUPS, size >> _ROWS_A_GROUP_BITS):
                return None
        members = np.bincount(group, minlength=len(first))
        blocks = (members + (1 << _BLOCK_BITS) - 1) >> _BLOCK_BITS
        first_block = np.cumsum(blocks) - blocks
        ordered = np.argsort(group, kind="stable")
        gaps = (first_block << _BLOCK_BITS) - (np.cumsum(members) - members)
        place = np.empty(size, np.int64)
        place[ordered] = np.arange(size) + gaps[group[ordered]]
        row = np.full(int(blocks.sum()) << _BLOCK_BITS, -1, np.int64)
        row[place] = np.arange(size)
        return _Grouping(group, place, row, first_block, {key: ids[first] for key, ids in columns.items()})


def _ids(table: NodeTable, key: str, rows: slice | Rows) -> Ids:
    ids = table.label(key).ids[rows]
    return np.where(ids >= 0, 0, -1).astype(np.int32) if key == HOSTNAME else ids


_groupings: WeakKeyDictionary[NodeTable, dict[tuple[str, ...], tuple[tuple[int, int], _Grouping | None]]] = (
    WeakKeyDictionary()
)


def _grouping_of(table: NodeTable, keys: tuple[str, ...]) -> _Grouping | None:
    """Return the rows grouped by *keys*, kept for all classes while no node changes."""
    kept = _groupings.setdefault(table, {})
    known = kept.get(keys)
    if known is None or known[0] != table.nodes_version:
        if len(kept) >= _MOST_GROUPINGS:
            kept.clear()  # topology keys are the pods' to choose
        known = kept[keys] = (table.nodes_version, _Grouping.of(table, keys))
    return known[1]


class _Groups:
    """The rows of one class by group, kept up to date with its feasibility."""

    def __init__(self, feasibility: Feasibility, plugin: SpreadPlugin, weight: int) -> None:
        self._feasibility, self._table = feasibility, feasibility.table
        self._plugin, self._weight = plugin, weight
        self._version: tuple[int, int] | None = None
        self._grouping: _Grouping | None = None
        self._keys: Ints  #: of every place; rows that are groups of their own are none of it
        self._tops: Ints  #: the best of every block
        self._takes: Ints  #: rows of every group that take the pod
        self._with_highest: list[Ints] = []  #: those among them with the highest raw score, by watched column
        self._apart: set[int] = set()  #: rows that are groups of their own

    def best(self) -> Best | None:
        keys = self._feasibility.keys()
        touched = self._feasibility.take_touched()
        if self._version != self._table.nodes_version:
            self._version = self._table.nodes_version
            self._grouping = _grouping_of(self._table, self._plugin.topology_keys)
            touched = None
        if self._grouping is None:
            return None
        if touched is None:
            self._rebuild(self._grouping, keys)
        elif touched:
            self._update(self._grouping, keys, np.fromiter(touched, np.int64, len(touched)))
        return self._chosen(self._grouping, keys)

    # ── keeping up ───────────────────────────────────────────────────────────────────────────────

    def _grouped(self, keys: Ints, counts: Ints | None) -> Ints:
        """Return *keys* without those of rows that are groups of their own."""
        return keys if counts is None else np.where(counts > 0, _INFEASIBLE, keys)

    def _rebuild(self, grouping: _Grouping, keys: Ints) -> None:
        counts = self._plugin.counted_by_hostname()
        self._apart = set() if counts is None else set(np.flatnonzero(counts).tolist())
        grouped = self._grouped(keys, counts)
        self._keys = np.full(len(grouping.row), _INFEASIBLE, np.int64)
        self._keys[grouping.place] = grouped
        self._tops = self._keys.reshape(-1, 1 << _BLOCK_BITS).max(axis=1)
        takes, groups = grouped >= 0, len(grouping.first_block)
        self._takes = np.bincount(grouping.group[takes], minlength=groups)
        self._with_highest = [
            np.bincount(grouping.group[takes & (raw[: len(keys)] == highest)], minlength=groups)
            for raw, highest in self._feasibility.watched()
        ]

    def _update(self, grouping: _Grouping, keys: Ints, rows: Rows) -> None:
        counts = self._plugin.counted_by_hostname()
        new = keys[rows]
        if counts is not None:
            here = counts[rows]
            new = self._grouped(new, here)
            self._apart.difference_update(rows.tolist())
            self._apart.update(rows[here > 0].tolist())
        places = grouping.place[rows]
        moved = (new >= 0).astype(np.int64) - (self._keys[places] >= 0)
        self._keys[places] = new
        blocks = np.unique(places >> _BLOCK_BITS)
        self._tops[blocks] = self._keys.reshape(-1, 1 << _BLOCK_BITS)[blocks].max(axis=1)
        if moved.any():
            np.add.at(self._takes, grouping.group[rows], moved)
            for (raw, highest), there in zip(self._feasibility.watched(), self._with_highest, strict=True):
                np.add.at(there, grouping.group[rows], moved * (raw[rows] == highest))

    # ── choosing ─────────────────────────────────────────────────────────────────────────────────

    def _chosen(self, grouping: _Grouping, keys: Ints) -> Best | None:
        tops = np.maximum.reduceat(self._tops, grouping.first_block)
        takes, labels, counts = self._takes, grouping.labels, np.zeros(len(tops), np.int64)
        apart = np.fromiter(self._apart, np.int64, len(self._apart))
        if len(apart):
            by_hostname = self._plugin.counted_by_hostname()
            assert by_hostname is not None
            tops, counts = np.concatenate([tops, keys[apart]]), np.concatenate([counts, by_hostname[apart]])
            takes = np.concatenate([takes, keys[apart] >= 0])
            labels = {
                key: np.concatenate([ids, _ids(self._table, key, apart)]) for key, ids in labels.items()
            }
        if self._plugin.filters:
            takes = np.where(self._plugin.codes_by_label(labels) == 0, takes, 0)
        feasible = int(takes.sum())
        left: Bools = takes > 0
        if not feasible or not self._keeps_highest(left, keys, apart):
            return None
        scores = tops
        if self._weight and feasible > 1:
            scores = tops + (
                (self._weight * self._plugin.scores_by_label(labels, takes, counts)) << RANK_BITS
            )
        found = int(np.where(left, scores, _INFEASIBLE).argmax())
        groups = len(grouping.first_block)
        row = self._best_of(grouping, found) if found < groups else int(apart[found - groups])
        return Best(row, feasible, int(scores[found]) >> RANK_BITS if feasible > 1 else 0)

    def _keeps_highest(self, left: Bools, keys: Ints, apart: Rows) -> bool:
        """Return whether the highest raw scores among all rows that take the pod are among those that are *left*."""
        groups = len(self._takes)
        for (raw, highest), there in zip(self._feasibility.watched(), self._with_highest, strict=True):
            if not there[left[:groups]].any() and not (raw[apart[left[groups:]]] == highest).any():
                return False
        return True

    def _best_of(self, grouping: _Grouping, group: int) -> int:
        """Return the best row of a group."""
        first, *rest = grouping.first_block[group : group + 2].tolist()
        last = rest[0] if rest else len(self._tops)
        block = first + int(self._tops[first:last].argmax())
        start = block << _BLOCK_BITS
        return int(grouping.row[start + int(self._keys[start : start + (1 << _BLOCK_BITS)].argmax())])
