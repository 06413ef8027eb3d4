"""Feasible nodes and scores of one pod class, kept current from the node table's log.

After a change only the changed rows are evaluated; the best node is found through the maxima of blocks of rows.
Normalized scores (TaintToleration, NodeAffinity) depend on the highest raw score among feasible nodes: it is tracked
by counting, and only when it moves are all rows scored again. Plugins that move whole domains at once (spread, pod
affinity) are added on demand over all rows.

Optimized form of the loop over nodes in tests/reference/scheduler.py; tests/property/test_scheduler.py compares them
after every change of random clusters; bench: "50 classes mixed, 5,000 nodes" of `python -m bench scheduler`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weir.scheduler.framework import (
    MAX_NODE_SCORE,
    FilterPlugin,
    Normalize,
    PluginError,
    Scope,
    ScorePlugin,
    Status,
)
from weir.scheduler.node_columns import Bools, Ids, Ints, Rows
from weir.scheduler.node_table import (
    ALLOC_CPU,
    ALLOC_MEMORY,
    BALANCE,
    FREE_CPU,
    FREE_PODS,
    SPARE_CPU,
    SPARE_MEMORY,
    USED_CPU,
    USED_MEMORY,
    NodeTable,
)
from weir.scheduler.pod_class import PodClass
from weir.scheduler.profile import ClassPlugins, highest, normalized
from weir.scheduler.reasons import OtherReason, Reason
from weir.scheduler.resource_scores import (
    IMPROVEMENT,
    RANK_BITS,
    AmountScores,
    amounts_of,
    resource_scores_of,
)

#: A key is score above rank: its maximum is the best score, and among equals the node looked at first.
_RANK_BITS: Final = RANK_BITS
_RANK_MASK: Final = (1 << _RANK_BITS) - 1
_INFEASIBLE: Final = -1
_NEVER: Final = -(2**62)
#: Rows of a block, as a power of two. Small: after a placement the blocks of all rows that changed since are looked
#: through, and a look over the maxima of ten times as many blocks still costs less than one of these.
_BLOCK_BITS: Final = 5
#: Up to this many rows one look over all keys is faster than keeping maxima of blocks, and one addition over all
#: rows faster than finding those that changed.
_FLAT: Final = 8192


class _NormalizedColumn:
    """The raw scores of one plugin that have to be normalized, and the highest among feasible nodes, by counting."""

    __slots__ = ("_counts", "highest", "plugin", "raw", "reverse", "weight")

    def __init__(self, plugin: ScorePlugin, weight: int, zeros: Ids) -> None:
        self.plugin, self.weight = plugin, weight
        self.reverse = plugin.normalize is Normalize.REVERSED
        self.raw = zeros  #: shared while there is nothing else in it
        self._counts: dict[int, int] = {}
        self.highest = 0

    def count(self, ok: Bools) -> None:
        """Begin to count the raw scores of the nodes that are *ok*."""
        values, counts = np.unique(self.raw[: len(ok)][ok], return_counts=True)
        self._counts = dict(zip(values.tolist(), counts.tolist(), strict=True))
        self.highest = max(self._counts, default=0)

    def move(self, gone: Rows, come: Rows) -> bool:
        """Take the scores of rows out and in; return whether the highest changed."""
        for score in self.raw[come].tolist():
            self._counts[score] = self._counts.get(score, 0) + 1
        for score in self.raw[gone].tolist():
            self._counts[score] -= 1
            if not self._counts[score]:
                del self._counts[score]
        now = max(self._counts, default=0)
        changed = now != self.highest
        self.highest = now
        return changed

    def weighted(self) -> Any:
        """Return the normalized score of every row times the weight; one number when all are alike."""
        if not self.highest:
            return self.weight * MAX_NODE_SCORE if self.reverse else 0
        scaled = MAX_NODE_SCORE * np.minimum(self.raw, self.highest) // self.highest
        return self.weight * (MAX_NODE_SCORE - scaled if self.reverse else scaled)


class Feasibility:
    """One pod class and every node."""

    def __init__(self, pod: PodClass, table: NodeTable, plugins: ClassPlugins) -> None:
        self.pod, self.table, self.plugins = pod, table, plugins
        requests = pod.requests
        self._asked = np.array([[requests.get("cpu", 0)], [requests.get("memory", 0)]], np.int64)
        # A resource that is not requested is never short, however overcommitted the node is.
        never = -(2**62)
        self._needed = np.array(
            [[requests.get("cpu", 0) or never], [requests.get("memory", 0) or never], [1]], np.int64
        )
        self._counted = 100 * np.array([[pod.nonzero_cpu], [pod.nonzero_memory]], np.int64)
        default = plugins.default_resources
        self._others = default.others if default is not None else ()
        self._balanced = default is not None and default.balanced
        self._amounts = amounts_of(pod, balanced=self._balanced)
        self._shared: AmountScores | None = (
            None  #: where the scores by resources come from, if they are shared
        )
        self._flips = 0  #: how many of its flips are counted
        self._tops: Ints | None = None  #: the maxima of blocks, in a large cluster
        self._known_keys: Ints  #: of the rows in use
        self._epoch = -1
        self._cursor = self._static_cursor = -1
        self.asked = 0  #: rows judged since it was last read and cleared
        self._touched: set[int] | None = (
            None  #: rows whose keys changed since they were taken; None: all may have
        )
        self.kept_by_domain: object = None  #: what weir.scheduler.best_by_domain keeps about this class

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    def best(self) -> int | None:
        """Return the row of the best node, or None when no node takes the pod."""
        self.sync()
        if self._tops is None:
            row = int(self._keys.argmax())
        else:
            block = int(self._tops.argmax())
            row = (block << self._block_bits) + int(self._blocks[block].argmax())
        return row if self._keys[row] >= 0 else None

    def feasible(self) -> Bools:
        """Return which nodes take the pod, as far as nodes and their own pods decide."""
        return self.keys() >= 0

    def keys(self) -> Ints:
        """Return what orders the rows: the better one is greater, one that does not take the pod is below zero."""
        self.sync()
        return self._keys[: self.table.size]

    def blocks(self) -> tuple[Ints, Ints] | None:
        """Return the best key of every block of rows, and the keys by block; None where the rows are too few for it."""
        self.sync()
        return None if self._tops is None else (self._tops, self._blocks)

    def take_touched(self) -> set[int] | None:
        """Return the rows whose keys changed since the last call, or more; None when any may have."""
        touched, self._touched = self._touched, set()
        return touched

    def watched(self) -> list[tuple[Ids, int]]:
        """Return the raw scores that are normalised, each with the highest of a row that takes the pod."""
        return [(column.raw, column.highest) for column in self._watched]

    @property
    def normalizes(self) -> bool:
        """Whether a score hangs on which other nodes are feasible."""
        return bool(self._watched)

    def totals(self, feasible: Bools) -> Ints:
        """Return the weighted score of every node, normalised over *feasible*; meaningless outside of it."""
        self.sync()
        size = self.table.size
        if all(highest(column.raw[:size], feasible) == column.highest for column in self._watched):
            total = self._keys[:size] >> _RANK_BITS  # the highest are the same as among all that take the pod
        else:
            total = self._normalized_anew(feasible)
        for plugin, weight in self.plugins.cluster_scores:
            score = plugin.normalized_scores(feasible)
            if score is not None:
                total += score if weight == 1 else weight * score
        return total

    def _normalized_anew(self, feasible: Bools) -> Ints:
        """Return the scores with their normalized parts as *feasible* makes them."""
        total = self._base()
        for column in self._columns:
            raw = column.raw[: self.table.size]
            total += column.weight * normalized(raw, feasible, reverse=column.reverse)
        return total

    def statuses(self, rows: Rows) -> dict[int, Status]:
        """Return the status of every refused row: the first filter that refuses decides."""
        found: dict[int, Status] = {}
        open_rows = rows
        for plugin in self.plugins.filters:
            codes = plugin.codes(open_rows)
            refused = codes != 0
            if refused.any():
                known: dict[int, Status] = {}
                for row, code in zip(open_rows[refused].tolist(), codes[refused].tolist(), strict=True):
                    if code not in known:
                        known[code] = plugin.status(code)
                    found[row] = known[code]
                open_rows = open_rows[~refused]
                if not len(open_rows):
                    break
        return found

    def reasons(self, rows: Rows) -> dict[int, list[Reason]]:
        """Return the reasons of all filters that reject a row, not only the first: for explanations."""
        found: dict[int, list[Reason]] = {}
        for plugin in self.plugins.filters:
            if plugin.scope is Scope.SEARCH:
                for row in rows.tolist():
                    if reasons := _alone(plugin, row):
                        found.setdefault(row, []).extend(reasons)
                continue
            codes = plugin.codes(rows)
            refused = codes != 0
            for row, code in zip(rows[refused].tolist(), codes[refused].tolist(), strict=True):
                found.setdefault(row, []).extend(plugin.reasons(row, code))
        return found

    # ── keeping up ───────────────────────────────────────────────────────────────────────────────

    def sync(self) -> None:
        """Bring every row up to date with the table."""
        table = self.table
        position = table.log_start + len(table.log)
        if self._epoch == table.epoch and self._cursor == position:
            return
        behind = self._cursor - table.log_start
        if self._epoch != table.epoch or behind < 0:
            self._rebuild()
            return
        if self._shared is not None:
            self._follow(self._shared, position)
            return
        if (len(table.log) - behind) * 2 > table.size:
            self._rebuild()
            return
        changed = set(table.log[behind:])
        rows = np.fromiter(changed, np.int64, len(changed))
        static = table.static_log[self._static_cursor - table.static_start :]
        self._cursor = position
        self.asked += len(changed)
        if static:
            self._static_cursor = table.static_start + len(table.static_log)
            if self._watched:
                # Raw scores of feasible nodes change under the counters: count again.
                self._rebuild()
                return
            self._judge_static(np.array(list(dict.fromkeys(static)), np.int64))
            if self._has_unwatched():
                self._rebuild()
                return
        self._update(rows)

    def _has_unwatched(self) -> bool:
        """Whether the first raw score above zero has come: from now on the highest of its plugin matters."""
        return not self._watched and any(column.raw is not self.table.zeros for column in self._columns)

    def _can_share(self) -> bool:
        """Whether the resource scores are shared by all classes with the same requests."""
        table = self.table
        default = self.plugins.default_resources is not None
        plain = default and not self._others and not table.incomplete and table.size == len(table)
        return plain and resource_scores_of(table).takes(self._amounts)

    def _follow(self, shared: AmountScores, position: int) -> None:
        """Bring every row up to date by adding what this class knows to the scores of its shared."""
        table = self.table
        if self._static_cursor != table.static_start + len(table.static_log):
            if self._watched or not self._can_share():
                self._rebuild()
                return
            static = table.static_log[self._static_cursor - table.static_start :]
            self._static_cursor = table.static_start + len(table.static_log)
            self._judge_static(np.array(list(dict.fromkeys(static)), np.int64))
            if self._has_unwatched():
                self._rebuild()
                return
        self.asked += min(position - self._cursor, table.size)
        if table.size > _FLAT:
            changed = set(table.log[self._cursor - position :])
            self._cursor = position
            self._resource_scores.sync(shared)
            self._update(np.fromiter(changed, np.int64, len(changed)))
            return
        if self._touched is not None:
            self._touched.update(table.log[self._cursor - position :])
        self._cursor = position
        self._resource_scores.sync(shared)
        if not self._watched or shared.flip_start + len(shared.flips) == self._flips:
            np.add(shared.scores[: table.size], self._offset, out=self._known_keys)
            return
        if self._flips < shared.flip_start:
            self._rebuild()
            return
        flips = set(shared.flips[self._flips - shared.flip_start :])
        self._flips = shared.flipped
        rows = np.fromiter(flips, np.int64, len(flips))
        was = self._keys[rows] >= 0
        self._add_up(shared)
        if self._highest_moved(rows, was, self._keys[rows] >= 0):
            self._set_fixed()
            self._add_up(shared)

    def _add_up(self, shared: AmountScores) -> None:
        self._touched = None
        np.add(shared.scores[: self.table.size], self._offset, out=self._known_keys)
        self._tops = self._blocks.max(axis=1) if self.table.size > _FLAT else None

    def _highest_moved(self, rows: Rows, was: Bools, now: Bools) -> bool:
        """Count the raw scores of rows that became feasible or ceased to be; return whether a highest changed."""
        gone, come = rows[was & ~now], rows[now & ~was]
        if not len(gone) and not len(come):
            return False
        moved = [column.move(gone, come) for column in self._watched]
        return any(moved)

    def _rebuild(self) -> None:
        table = self.table
        size = table.size
        self.asked += size
        self._touched = None
        self._epoch = table.epoch
        self._cursor = table.log_start + len(table.log)
        self._static_cursor = table.static_start + len(table.static_log)
        self._block_bits = _BLOCK_BITS
        blocks = (size + (1 << self._block_bits) - 1) >> self._block_bits or 1
        self._keys: Ints = np.full(blocks << self._block_bits, _INFEASIBLE, np.int64)
        self._blocks = self._keys.reshape(blocks, 1 << self._block_bits)
        self._tops = None
        self._suitable: Bools = np.zeros(size, np.bool_)
        self._columns = [_NormalizedColumn(*score, table.zeros) for score in self.plugins.normalized_scores]
        self._node_scores = table.zeros  #: final scores that the node alone decides
        self._fixed: Ids | int = 0  #: one number while no raw score is watched
        self._offset: Ints = np.zeros(size, np.int64)
        self._watched: list[_NormalizedColumn] = []  #: those with a raw score above zero
        everything = slice(0, size)
        self._judge_static(everything)
        self._shared = None
        if self._can_share():
            self._resource_scores = resource_scores_of(table)
            self._shared = shared = self._resource_scores.of(self._amounts)
            self._resource_scores.sync(shared)
            self._known_keys = self._keys[:size]
            self._flips = shared.flipped
            self._watch((shared.scores[:size] >= 0) & self._suitable)
            self._set_fixed()
            self._add_up(shared)
            return
        ok, base = self._judge(everything)
        ok &= self._suitable
        self._watch(ok)
        self._score(ok, base)

    def _watch(self, ok: Bools) -> None:
        """Count the raw scores whose highest decides the normalised ones."""
        self._watched = [column for column in self._columns if column.raw is not self.table.zeros]
        for column in self._watched:
            column.count(ok)

    def _score(self, ok: Bools, base: Ints) -> None:
        """Score every row, the normalised parts with the highest raw scores as they are now."""
        size = self.table.size
        self._touched = None
        self._set_fixed()
        keys = (base << _RANK_BITS) + self._offset
        keys[~ok] = _INFEASIBLE
        self._keys[:size] = keys
        self._tops = self._blocks.max(axis=1) if size > _FLAT else None

    def _set_fixed(self) -> None:
        """Work out the normalised scores, and with them what is added to every score."""
        self._fixed = sum(column.weighted() for column in self._columns)
        self._set_offsets(slice(0, self.table.size))

    def _set_offsets(self, rows: Any) -> None:
        """Put together what is added to every score; a node that never takes the pod gets far below zero."""
        offset = self._node_scores[rows].astype(np.int64)
        offset += self._fixed if isinstance(self._fixed, int) else self._fixed[rows]
        offset <<= _RANK_BITS
        offset += _RANK_MASK
        offset -= self.table.rank[rows]
        self._offset[rows] = np.where(self._suitable[rows], offset, _NEVER)

    def _base(self) -> Ints:
        """Return the scores without their normalised parts; meaningless where infeasible."""
        size = self.table.size
        return (self._keys[:size] >> _RANK_BITS) - (
            self._fixed if isinstance(self._fixed, int) else self._fixed[:size]
        )

    def _update(self, rows: Rows) -> None:
        if self._touched is not None:
            self._touched.update(rows.tolist())
        shared = self._shared
        if shared is not None:
            keys = shared.scores.take(rows)
            keys += self._offset.take(rows)
        else:
            ok, keys = self._judge(rows)
            keys <<= _RANK_BITS
            keys += self._offset[rows]
            keys[~ok] = _INFEASIBLE
        old = self._keys[rows]
        if self._watched and self._highest_moved(rows, old >= 0, keys >= 0):
            self._keys[rows] = keys
            if shared is not None:
                self._set_fixed()
                self._add_up(shared)
            else:
                base = self._base() - self._node_scores[: self.table.size]
                self._score(self._keys[: self.table.size] >= 0, base)
            return
        if self._tops is None:
            self._keys[rows] = keys
            return
        self._keys[rows] = keys
        blocks = rows >> self._block_bits
        tops = self._tops[blocks]
        stale = blocks[(old == tops) | (keys > tops)]
        if len(stale):
            self._tops[stale] = np.maximum.reduce(self._blocks.take(stale, axis=0), axis=1)

    def _judge_static(self, rows: Any) -> None:
        """Judge what only the node decides."""
        suitable = self.table.alive[rows].copy()
        for plugin in self.plugins.node_filters:
            suitable &= plugin.codes(rows) == 0
        self._suitable[rows] = suitable
        for column in self._columns:
            column.raw = self._changed(column.raw, rows, column.plugin.score(rows))
        if self.plugins.node_scores:
            total = sum(weight * score.score(rows) for score, weight in self.plugins.node_scores)
            self._node_scores = self._changed(self._node_scores, rows, total)
        if not isinstance(rows, slice):
            self._set_offsets(rows)

    def _changed(self, column: Ids, rows: Any, values: Any) -> Ids:
        """Return *column* with new *values*; a column of nothing but zeros is shared, not kept."""
        if column is self.table.zeros:
            if not values.any():
                return column
            column = np.zeros(len(self.table.alive), np.int32)
        column[rows] = values
        return column

    def _judge(self, rows: Any) -> tuple[Bools, Ints]:
        """Return which rows take the pod as far as their own pods decide, and their unnormalised score."""
        gaps = isinstance(rows, slice) and self.table.size != len(self.table)
        if self.plugins.default_resources is not None and not self.table.incomplete and not gaps:
            return self._judge_default_resources(rows)
        ok = np.ones(len(self.table.alive[rows]), np.bool_)
        for plugin in self.plugins.pods_filters:
            ok &= plugin.codes(rows) == 0
        base = np.zeros(len(ok), np.int64)
        for score, weight in self.plugins.pods_scores:
            base += weight * score.score(rows)
        return ok, base

    def _judge_default_resources(self, rows: Any) -> tuple[Bools, Ints]:
        """Return the same for the default plugins, in fewer steps: this is where the time goes.

        Optimized form of `_judge`; tests/unit/scheduler/test_resource_scores.py compares them; bench: "50 classes
        mixed, 5,000 nodes" of `python -m bench scheduler`.
        """
        table = self.table
        state = table.state[:, rows] if isinstance(rows, slice) else table.state.take(rows, axis=1)
        capacity = state[ALLOC_CPU : ALLOC_MEMORY + 1]
        ok: Bools = np.logical_and.reduce(state[FREE_CPU : FREE_PODS + 1] >= self._needed)
        for name, amount in self._others:
            column = table.resource(name)
            ok &= column.alloc[rows] - column.used[rows] >= amount
        left = state[SPARE_CPU : SPARE_MEMORY + 1] - self._counted
        left //= capacity
        np.maximum(left, 0, out=left)
        base = left[0] + left[1]
        base >>= 1
        if self._balanced:
            shares = (state[USED_CPU : USED_MEMORY + 1] + self._asked) / capacity
            if table.overcommitted:  # elsewhere a share above 1 is on a node that does not take the pod
                np.minimum(shares, 1.0, out=shares)
            balance = shares[0]
            balance -= shares[1]
            np.abs(balance, out=balance)
            balance *= -0.5
            balance += 1.0
            balance *= MAX_NODE_SCORE
            gain = balance.astype(np.int64)
            gain -= state[BALANCE]
            base += IMPROVEMENT.take(gain, mode="wrap")
        return ok, base


def _alone(plugin: FilterPlugin, row: int) -> tuple[Reason, ...]:
    """Return what a plugin says against one row; what breaks it there does not keep the others from answering."""
    try:
        code = int(plugin.codes(np.array([row], np.int64))[0])
    except PluginError as error:
        return (OtherReason(plugin.name, str(error), fails=True),)
    return plugin.reasons(row, code) if code else ()
