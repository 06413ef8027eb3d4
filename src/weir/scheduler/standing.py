"""Where does a pod class stand with every node? Feasibility and scores, kept up to date from the table's log.

For each class: which nodes take it, what they score, and the best of them. After a change only the changed rows are
judged again; the best is found through the maxima of blocks of rows, so that placing one more pod of a known class
does not cost a look at every node. Normalised scores (TaintToleration, NodeAffinity) hang on the highest raw score
among feasible nodes: it is watched by counting, and only when it moves are all rows scored anew.
Plugins that move whole domains at once (spread, pod affinity) are added on top when asked, over all rows.
The plain per-node loop in the tests is the definition; property tests hold this against it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weir.scheduler.framework import MAX_NODE_SCORE, Status
from weir.scheduler.plugins.node_affinity import BoundNodeAffinity
from weir.scheduler.plugins.node_resources_balanced_allocation import BoundBalancedAllocation
from weir.scheduler.plugins.node_resources_fit import BoundNodeResourcesFit
from weir.scheduler.plugins.taint_toleration import BoundTaintToleration
from weir.scheduler.podclass import PodClass
from weir.scheduler.profile import Bound
from weir.scheduler.table import (
    ALLOC_CPU,
    ALLOC_MEMORY,
    NONZERO_CPU,
    USED_CPU,
    Bools,
    Ints,
    NodeTable,
    Rows,
)

#: A key is score above rank: its maximum is the best score, and among equals the node looked at first.
_RANK_BITS: Final = 24
_RANK_MASK: Final = (1 << _RANK_BITS) - 1
_INFEASIBLE: Final = -1
#: Cut-towards-zero halves of 50 + gain for gains from -100 to 100 (see improvement()).
_IMPROVEMENT: Final = np.array([50 + int((50 + gain) / 2) for gain in range(-100, 101)], np.int64)


class _Highest:
    """The highest raw score among feasible nodes, kept by counting."""

    __slots__ = ("_counts", "value")

    def __init__(self, raw: Any) -> None:
        values, counts = np.unique(raw, return_counts=True)
        self._counts: dict[int, int] = dict(zip(values.tolist(), counts.tolist(), strict=True))
        self.value = max(self._counts, default=0)

    def move(self, gone: Any, come: Any) -> bool:
        """Take scores out and in; return whether the highest changed."""
        for score in come.tolist():
            self._counts[score] = self._counts.get(score, 0) + 1
        for score in gone.tolist():
            self._counts[score] -= 1
            if not self._counts[score]:
                del self._counts[score]
        highest = max(self._counts, default=0)
        changed = highest != self.value
        self.value = highest
        return changed


class Standing:
    """One pod class and every node."""

    def __init__(self, pod: PodClass, table: NodeTable, bound: Bound) -> None:
        self.pod, self.table, self.bound = pod, table, bound
        self._fit: BoundNodeResourcesFit | None = bound.fit
        self._balanced: BoundBalancedAllocation | None = bound.balanced
        self._taints: BoundTaintToleration | None = bound.taints
        self._affinity: BoundNodeAffinity | None = bound.affinity
        self._fused = bound.fused
        if self._fused:
            requests = pod.requests
            self._asked = np.array([[requests.get("cpu", 0)], [requests.get("memory", 0)]], np.int64)
            # A resource that is not asked for is never short, however overcommitted the node is.
            never = -(2**62)
            self._needed = np.array(
                [[requests.get("cpu", 0) or never], [requests.get("memory", 0) or never], [1]], np.int64
            )
            self._counted = np.array([[pod.nonzero_cpu], [pod.nonzero_memory]], np.int64)
        self._epoch = -1
        self._cursor = self._static_cursor = -1

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    def best(self) -> int | None:
        """Return the row of the best node, or None when no node takes the pod."""
        self.sync()
        block = int(self._tops.argmax())
        key = int(self._tops[block])
        if key < 0:
            return None
        return int(self.table.ordered[_RANK_MASK - (key & _RANK_MASK)])

    def feasible(self) -> Bools:
        """Return which nodes take the pod, as far as nodes and their own pods decide."""
        self.sync()
        return self._ok[: self.table.size]

    def totals(self, feasible: Bools) -> Ints:
        """Return the weighted score of every node, normalised over *feasible*; meaningless outside of it."""
        self.sync()
        size = self.table.size
        total = self._base[:size].copy()
        weights = self.bound.weights
        if self._taints is not None:
            total += weights["TaintToleration"] * _normalised(self._soft[:size], feasible, reverse=True)
        if self._affinity is not None and self._affinity.scores:
            total += weights["NodeAffinity"] * _normalised(self._preferred[:size], feasible, reverse=False)
        for plugin in self.bound.domain_scores:
            score = plugin(feasible)
            if score is not None:
                total += score
        return total

    def codes(self, rows: Any) -> list[tuple[Any, Any]]:
        """Return, for each filter in its order, the filter and its codes for *rows*."""
        return [(plugin, plugin.codes(rows)) for plugin in self.bound.filters]

    def statuses(self, rows: Rows) -> dict[int, Status]:
        """Return the status of every refused row: the first filter that refuses decides."""
        found: dict[int, Status] = {}
        open_rows = rows
        for plugin in self.bound.filters:
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

    # ── keeping up ───────────────────────────────────────────────────────────────────────────────

    def sync(self) -> None:
        """Bring every row up to date with the table."""
        table = self.table
        position = table.log_start + len(table.log)
        if self._epoch == table.epoch and self._cursor == position:
            return
        behind = self._cursor - table.log_start
        if self._epoch != table.epoch or behind < 0 or (len(table.log) - behind) * 2 > table.size:
            self._rebuild()
            return
        static = table.static_log[self._static_cursor - table.static_start :]
        if static:
            rows = np.array(list(dict.fromkeys(static)), np.int64)
            self._judge_static(rows)
        rows = np.array(list(set(table.log[behind:])), np.int64)
        self._cursor = position
        self._static_cursor = table.static_start + len(table.static_log)
        if static and self._watched:
            # Raw scores of feasible nodes changed under the counters: count again.
            self._rebuild()
            return
        self._update(rows)

    def _rebuild(self) -> None:
        table = self.table
        capacity = len(table.alive)
        self._epoch = table.epoch
        self._cursor = table.log_start + len(table.log)
        self._static_cursor = table.static_start + len(table.static_log)
        self._block_bits = max(5, int(np.log2(max(2, table.size)) / 2 + 0.5))
        blocks = (table.size + (1 << self._block_bits) - 1) >> self._block_bits or 1
        self._keys: Ints = np.full(blocks << self._block_bits, _INFEASIBLE, np.int64)
        self._blocks = self._keys.reshape(blocks, 1 << self._block_bits)
        self._suitable: Bools = np.zeros(capacity, np.bool_)
        self._soft: Ints = np.zeros(capacity, np.int64)
        self._preferred: Ints = np.zeros(capacity, np.int64)
        self._images: Ints = np.zeros(capacity, np.int64)
        self._low: Ints = _RANK_MASK - table.rank.astype(np.int64)
        everything = slice(0, table.size)
        self._judge_static(everything)
        ok, base = self._judge(everything)
        self._ok: Bools = np.zeros(capacity, np.bool_)
        self._base: Ints = np.zeros(capacity, np.int64)
        self._ok[everything], self._base[everything] = ok, base
        self._watch()
        self._fix_scores()

    def _watch(self) -> None:
        """Count the raw scores whose highest decides the normalised ones."""
        size = self.table.size
        ok = self._ok[:size]
        self._watched: list[tuple[Ints, _Highest]] = []
        if self._taints is not None and self._soft[:size].any():
            self._watched.append((self._soft, _Highest(self._soft[:size][ok])))
        if self._affinity is not None and self._affinity.scores:
            self._watched.append((self._preferred, _Highest(self._preferred[:size][ok])))

    def _fix_scores(self) -> None:
        """Score every row, the normalised parts with the highest raw scores as they are now."""
        size = self.table.size
        weights = self.bound.weights
        fixed = np.zeros(len(self._ok), np.int64)
        if self._taints is not None:
            highest = next((w.value for raw, w in self._watched if raw is self._soft), 0)
            part = (
                MAX_NODE_SCORE - MAX_NODE_SCORE * np.minimum(self._soft, highest) // highest
                if highest
                else MAX_NODE_SCORE
            )
            fixed += weights["TaintToleration"] * part
        if self._affinity is not None and self._affinity.scores:
            highest = next((w.value for raw, w in self._watched if raw is self._preferred), 0)
            if highest:
                part = MAX_NODE_SCORE * np.minimum(self._preferred, highest) // highest
                fixed += weights["NodeAffinity"] * part
        self._fixed: Ints = fixed
        keys = (self._base[:size] + fixed[:size]) << _RANK_BITS | self._low[:size]
        self._keys[:size] = np.where(self._ok[:size], keys, _INFEASIBLE)
        self._tops: Ints = self._blocks.max(axis=1)

    def _update(self, rows: Rows) -> None:
        ok, base = self._judge(rows)
        if self._watched:
            was = self._ok[rows]
            gone, come = rows[was & ~ok], rows[ok & ~was]
            moved = [highest.move(raw[gone], raw[come]) for raw, highest in self._watched]
            if any(moved):
                self._ok[rows], self._base[rows] = ok, base
                self._fix_scores()
                return
        self._ok[rows], self._base[rows] = ok, base
        keys = base + self._fixed[rows]
        keys <<= _RANK_BITS
        keys |= self._low[rows]
        keys[~ok] = _INFEASIBLE
        old = self._keys[rows]
        self._keys[rows] = keys
        blocks = rows >> self._block_bits
        tops = self._tops[blocks]
        stale = blocks[(old == tops) | (keys > tops)]
        if len(stale):
            self._tops[stale] = self._blocks[stale].max(axis=1)

    def _judge_static(self, rows: Any) -> None:
        """Judge what only the node decides."""
        suitable = self.table.alive[rows].copy()
        for plugin in self.bound.static_filters:
            suitable &= plugin.codes(rows) == 0
        self._suitable[rows] = suitable
        if self._taints is not None:
            self._soft[rows] = self._taints.raw(rows)
        if self._affinity is not None and self._affinity.scores:
            self._preferred[rows] = self._affinity.raw(rows)
        if self.bound.images is not None:
            self._images[rows] = self.bound.images.raw(rows) * self.bound.weights["ImageLocality"]

    def _judge(self, rows: Any) -> tuple[Bools, Ints]:
        """Return which rows take the pod and their unnormalised score."""
        if self._fused:
            return self._judge_fused(rows)
        ok = self._suitable[rows].copy()
        for plugin in self.bound.dynamic_filters:
            ok &= plugin.codes(rows) == 0
        base = self._images[rows].copy()
        if self._fit is not None:
            base += self._fit.raw(rows) * self.bound.weights["NodeResourcesFit"]
        if self._balanced is not None:
            base += self._balanced.raw(rows) * self.bound.weights["NodeResourcesBalancedAllocation"]
        return ok, base

    def _judge_fused(self, rows: Any) -> tuple[Bools, Ints]:
        """Return the same for the default plugins, in fewer steps: this is where the time goes."""
        state = self.table.state[:, rows]
        capacity = state[ALLOC_CPU : ALLOC_MEMORY + 1]
        used = state[USED_CPU : USED_CPU + 2]
        ok = ((state[0:3] - state[3:6]) >= self._needed).all(axis=0)
        ok &= self._suitable[rows]
        for name, amount in self._fit.others.items() if self._fit is not None else ():
            column = self.table.resource(name)
            ok &= column.alloc[rows] - column.used[rows] >= amount
        left = capacity - state[NONZERO_CPU : NONZERO_CPU + 2]
        left -= self._counted
        left *= MAX_NODE_SCORE
        there = capacity > 0
        safe = capacity if there.all() else np.maximum(capacity, 1)
        left //= safe
        np.maximum(left, 0, out=left)
        if safe is capacity:
            base = left[0] + left[1]
            base >>= 1
        else:
            left[~there] = 0
            base = left.sum(axis=0) // np.maximum(there.sum(axis=0), 1)
        if self._balanced is not None:
            both: Any = None if safe is capacity else there.all(axis=0)
            gain: Any = _balance(used + self._asked, safe, both) - _balance(used, safe, both)
            base += _IMPROVEMENT[gain + 100]
        base += self._images[rows]
        return ok, base


def _balance(used: Ints, capacity: Ints, both: Bools | None) -> Ints:
    """Return balance() of exactly CPU and memory; *both* says where the node has both."""
    shares = used / capacity
    np.minimum(shares, 1.0, out=shares)
    deviation = np.abs(shares[0] - shares[1])
    deviation *= 0.5
    if both is not None:
        deviation[~both] = 0.0
    np.subtract(1.0, deviation, out=deviation)
    deviation *= MAX_NODE_SCORE
    return deviation.astype(np.int64)


def _normalised(raw: Ints, feasible: Bools, *, reverse: bool) -> Ints:
    """Return raw scores scaled by the highest among *feasible*."""
    highest = int(raw.max(initial=0, where=feasible))
    if highest == 0:
        return np.full(len(raw), MAX_NODE_SCORE if reverse else 0, np.int64)
    scaled = MAX_NODE_SCORE * np.minimum(raw, highest) // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled
