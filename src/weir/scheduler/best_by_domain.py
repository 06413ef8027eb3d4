"""Best node for a pod with spread constraints, found per place instead of per node.

Spread constraints treat nodes alike that have the same values of the labels they name and as many pods counted by
hostname: they are one place. The rows of a class lie in their places, the best first. After a placement the rows that
changed move, and the constraints are evaluated once per place, in plain numbers. Scores normalized over feasible nodes
depend on which places the constraints reject: if the highest raw score is in no remaining place, the result is None
and all nodes are evaluated. So they are where there are nearly as many places as nodes and, up to some thousand nodes,
for the first of several pods of a class.

Optimized form of weir.scheduler.cycle; tests/unit/scheduler/test_best_by_domain.py compares them; bench: the curve
`placement` of `python -m bench growth`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from weir.scheduler.feasibility import Feasibility
from weir.scheduler.framework import SpreadPlugin
from weir.scheduler.node_columns import Ids, Ints, Rows
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.spread_constraints import HOSTNAME
from weir.scheduler.resource_scores import RANK_BITS

#: Up to this many nodes one look at all of them costs no more than finding all places.
LOOKS_AT_ALL: Final = 4_096
#: So many places are always kept apart; beyond that, as many as there are rows for each of them.
_FEW_PLACES: Final = 64
_ROWS_A_PLACE_BITS: Final = 3
_MOST_GROUPINGS: Final = 16
#: So many classes have their rows in places, at about 12 bytes a row.
_MOST_IN_USE: Final = 64
#: Up to so many changed rows are moved one by one; in a small cluster, those that the pod before has just changed.
_FEW_ROWS: Final = 4
_MANY_ROWS: Final = 256
#: After so many moves all rows are put into their places anew, without what is left of the earlier ones.
_MOST_MOVES: Final = 1_024
#: So many of the best rows of a place are read at once.
_READ: Final = 16
_RANK_MASK: Final = (1 << RANK_BITS) - 1
_BITS: Final = 62
_INFEASIBLE: Final = -1
_NONE: Final[Ids] = np.zeros(0, np.int32)


class Best(NamedTuple):
    """The best row, how many rows take the pod, and what the best one scores (0 where it is the only one)."""

    row: int
    feasible: int
    score: int


def best_by_domain(feasibility: Feasibility) -> Best | None:
    """Return the best row; None when all have to be looked at to know it, or there is none."""
    spread = feasibility.plugins.spread
    if spread is None:
        return None
    kept = feasibility.kept_by_domain
    if kept is None:
        kept = feasibility.kept_by_domain = _Places(feasibility.table, *spread)
    assert isinstance(kept, _Places)
    return kept.best(feasibility)


@dataclass(frozen=True)
class _Grouping:
    """The rows of a table by the values of some labels."""

    group: Rows  #: of every row
    labels: Mapping[str, Ids]  #: of every group
    numbers: Mapping[str, list[int]]  #: the same as plain numbers

    @staticmethod
    def of(table: NodeTable, keys: tuple[str, ...]) -> _Grouping | None:
        """Return the grouping by *keys*, of a hostname whether there is one; None where it has too many groups."""
        size = table.size
        group: Rows = np.zeros(size, np.int64)
        first: Rows = np.zeros(min(size, 1), np.int64)
        columns = {key: _ids(table, key) for key in keys}
        for ids in columns.values():
            mixed = group * (int(ids.max(initial=-1)) + 2) + ids + 1
            _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
            if len(first) > _most_places(size):
                return None
        labels = {key: ids[first] for key, ids in columns.items()}
        return _Grouping(group, labels, {key: ids.tolist() for key, ids in labels.items()})


def _most_places(rows: int) -> int:
    return max(_FEW_PLACES, rows >> _ROWS_A_PLACE_BITS)


def _ids(table: NodeTable, key: str) -> Ids:
    ids = table.label(key).ids[: table.size]
    return np.where(ids >= 0, 0, -1).astype(np.int32) if key == HOSTNAME else ids


class _Shared:
    """What the classes of one table share."""

    def __init__(self) -> None:
        self._groupings: dict[tuple[str, ...], tuple[tuple[int, int], _Grouping | None]] = {}
        #: whose rows are in their places, those found last at the end
        self._in_use: WeakKeyDictionary[_Places, None] = WeakKeyDictionary()

    def grouping_of(self, table: NodeTable, keys: tuple[str, ...]) -> _Grouping | None:
        """Return the rows grouped by *keys*, kept for all classes while no node changes."""
        known = self._groupings.get(keys)
        if known is None or known[0] != table.nodes_version:
            if len(self._groupings) >= _MOST_GROUPINGS:
                self._groupings.clear()  # topology keys are the pods' to choose
            known = self._groupings[keys] = (table.nodes_version, _Grouping.of(table, keys))
        return known[1]

    def use(self, places: _Places) -> None:
        """Keep *places*, and forget those found longest ago where there are many."""
        self._in_use.pop(places, None)
        self._in_use[places] = None
        if len(self._in_use) > _MOST_IN_USE:
            oldest = next(iter(self._in_use))
            del self._in_use[oldest]
            oldest.forget()


_shared: WeakKeyDictionary[NodeTable, _Shared] = WeakKeyDictionary()


class _Place:
    """The rows of one group on which equally many pods are counted by hostname."""

    __slots__ = ("_came", "_keys", "_read", "count", "group", "taking")

    def __init__(self, group: int, count: int, keys: Ints | None = None) -> None:
        """*keys* are those of rows that take the pod, in ascending order."""
        self.group, self.count = group, count
        self.taking = 0 if keys is None else len(keys)  #: rows that take the pod
        self._keys = keys
        self._read: list[int] = []  #: the best of them, the best one last
        self._came: list[int] = []  #: a heap of the keys below zero of rows that came later

    def add(self, key: int) -> None:
        """Take in a row that came."""
        self.taking += 1
        heappush(self._came, -key)

    def best(self, moved: _Moved) -> int:
        """Return the best key of the rows that are here; of *moved* rows the last place and key count."""
        read, came = self._read, self._came
        while not read or read[-1] & _RANK_MASK in moved:
            if read:
                read.pop()
            elif self._keys is None or not len(self._keys):
                break
            else:
                read = self._read = self._keys[-_READ:].tolist()
                self._keys = self._keys[:-_READ]
        while came and moved[-came[0] & _RANK_MASK] != (self, -came[0]):
            heappop(came)
        return max(read[-1] if read else _INFEASIBLE, -came[0] if came else _INFEASIBLE)


#: By the end of their keys, which tells rows apart: rows that changed, with their place and key; None: takes no pod.
_Moved = dict[int, tuple[_Place, int] | None]


class _Places:
    """The rows of one class by place, kept up to date with its feasibility, which keeps them and is not held here.

    A feasibility that is dropped is gone with all its rows at once, without a garbage collection.
    """

    def __init__(self, table: NodeTable, plugin: SpreadPlugin, weight: int) -> None:
        self._table, self._plugin, self._weight = table, plugin, weight
        self._shared = _shared.setdefault(self._table, _Shared())
        self._version: tuple[int, int] | None = None
        self._grouping: _Grouping | None = None
        self._known = False  #: whether the rows are in their places
        self._places: dict[tuple[int, int], _Place] = {}  #: by group and count
        self._moved: _Moved = {}
        self._codes = (
            _NONE  #: of every row where it was at first: group and count as one number; -1: takes no pod
        )
        self._width = 1  #: of counts in such a number
        self._moves = 0

    def best(self, feasibility: Feasibility) -> Best | None:
        """Return the best row of their *feasibility*; None when all have to be looked at, or there is none."""
        keys = feasibility.keys()
        touched = feasibility.take_touched()
        if self._version != self._table.nodes_version:
            self._version = self._table.nodes_version
            self._grouping = self._shared.grouping_of(self._table, self._plugin.topology_keys)
            touched = None
        if self._grouping is None:
            return None
        small = len(self._table) <= LOOKS_AT_ALL
        most = _FEW_ROWS if small else _MANY_ROWS
        if touched is None or len(touched) > most or self._moves > _MOST_MOVES:
            self.forget()
            if small:
                return None
        if not self._known:
            self._known = self._find(self._grouping, keys)
        elif touched:
            self._move(self._grouping, keys, touched)
        return self._chosen(self._grouping, keys, feasibility) if self._known else None

    # ── keeping up ───────────────────────────────────────────────────────────────────────────────

    def forget(self) -> None:
        """Let go of the rows; they are put into their places anew when a pod asks."""
        self._codes = _NONE
        self._known, self._places, self._moved, self._moves = False, {}, {}, 0

    def _find(self, grouping: _Grouping, keys: Ints) -> bool:
        """Put every row into its place; return False where there are too many places."""
        self.forget()
        counts, codes = self._plugin.counted_by_hostname(), grouping.group
        if counts is not None:
            self._width = int(counts.max(initial=0)) + 1
            codes = codes * self._width + counts
        takes = keys >= 0
        self._codes = np.where(takes, codes, _INFEASIBLE).astype(np.int32)
        bits = int(keys.max(initial=0)).bit_length()
        if bits + int(codes.max(initial=0)).bit_length() > _BITS:
            return False
        ordered = (codes[takes] << bits) | keys[takes]
        ordered.sort()
        of_place = ordered >> bits
        ordered &= (1 << bits) - 1
        starts = np.flatnonzero(np.diff(of_place, prepend=_INFEASIBLE)).tolist()
        if len(starts) > _most_places(len(keys)):
            return False
        for start, end in pairwise([*starts, len(ordered)]):
            place = divmod(int(of_place[start]), self._width)
            self._places[place] = _Place(*place, ordered[start:end])
        self._shared.use(self)
        return True

    def _move(self, grouping: _Grouping, keys: Ints, rows: set[int]) -> None:
        """Put rows that changed into the place where they are now."""
        counts, rank = self._plugin.counted_by_hostname(), self._table.rank
        self._moves += len(rows)
        for row in rows:
            end = _RANK_MASK - int(rank[row])
            if end in self._moved:
                before = self._moved[end]
                last = before[0] if before is not None else None
            else:
                code = int(self._codes[row])
                last = self._places[divmod(code, self._width)] if code >= 0 else None
            if last is not None:
                last.taking -= 1
            key = int(keys[row])
            if key < 0:
                self._moved[end] = None
                continue
            where = (int(grouping.group[row]), 0 if counts is None else int(counts[row]))
            place = self._places.get(where)
            if place is None:
                place = self._places[where] = _Place(*where)
            place.add(key)
            self._moved[end] = (place, key)

    # ── choosing ─────────────────────────────────────────────────────────────────────────────────

    def _chosen(self, grouping: _Grouping, keys: Ints, feasibility: Feasibility) -> Best | None:
        places = [place for place in self._places.values() if place.taking]
        if self._plugin.filters:
            refused = self._plugin.codes_by_label(grouping.labels) != 0
            if refused.any():
                if not _keeps_highest(feasibility, keys, ~refused[grouping.group]):
                    return None
                flags = refused.tolist()
                places = [place for place in places if not flags[place.group]]
        feasible = sum([place.taking for place in places])
        if not feasible:
            return None
        best = [place.best(self._moved) for place in places]
        if self._weight and feasible > 1:
            scores = self._plugin.scores_by_place(
                grouping.numbers, [(place.group, place.count, place.taking) for place in places]
            )
            best = [
                key + (self._weight * score << RANK_BITS) for key, score in zip(best, scores, strict=True)
            ]
        found = max(best)
        row = int(self._table.ordered[_RANK_MASK - (found & _RANK_MASK)])
        return Best(row, feasible, found >> RANK_BITS if feasible > 1 else 0)


def _keeps_highest(feasibility: Feasibility, keys: Ints, among: Ints) -> bool:
    """Return whether the highest raw scores of all rows that take the pod are *among* those that are left."""
    left = (keys >= 0) & among
    return all((raw[: len(keys)][left] == highest).any() for raw, highest in feasibility.watched())
