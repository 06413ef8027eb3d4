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

from weir.scheduler.framework import MAX_NODE_SCORE, PluginError, Status
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
    Bools,
    Ids,
    Ints,
    NodeTable,
    Rows,
)
from weir.scheduler.plugins.node_affinity import BoundNodeAffinity
from weir.scheduler.plugins.taint_toleration import BoundTaintToleration
from weir.scheduler.pod_class import PodClass
from weir.scheduler.profile import Bound
from weir.scheduler.reasons import OtherReason, Reason
from weir.scheduler.resource_scores import IMPROVEMENT, RANK_BITS, Demand, amounts_of, demands_of

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


class Feasibility:
    """One pod class and every node."""

    def __init__(self, pod: PodClass, table: NodeTable, bound: Bound) -> None:
        self.pod, self.table, self.bound = pod, table, bound
        self._taints: BoundTaintToleration | None = bound.taints
        self._affinity: BoundNodeAffinity | None = bound.affinity
        requests = pod.requests
        self._asked = np.array([[requests.get("cpu", 0)], [requests.get("memory", 0)]], np.int64)
        # A resource that is not asked for is never short, however overcommitted the node is.
        never = -(2**62)
        self._needed = np.array(
            [[requests.get("cpu", 0) or never], [requests.get("memory", 0) or never], [1]], np.int64
        )
        self._counted = 100 * np.array([[pod.nonzero_cpu], [pod.nonzero_memory]], np.int64)
        self._others = tuple(bound.fit.others.items()) if bound.fit is not None else ()
        self._amounts = amounts_of(pod, balanced=bound.balanced is not None)
        self._demand: Demand | None = None  #: where the scores by resources come from, if they are shared
        self._flips = 0  #: how many of its flips are counted
        self._tops: Ints | None = None  #: the maxima of blocks, in a large cluster
        self._known_keys: Ints
        self._known_offsets: Ints
        self._epoch = -1
        self._cursor = self._static_cursor = -1
        self.asked = 0  #: rows judged since somebody last read and cleared it

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
        self.sync()
        return self._keys[: self.table.size] >= 0

    def totals(self, feasible: Bools) -> Ints:
        """Return the weighted score of every node, normalised over *feasible*; meaningless outside of it."""
        self.sync()
        size = self.table.size
        if all(_highest(raw[:size], feasible) == watched.value for raw, watched in self._watched):
            total = self._keys[:size] >> _RANK_BITS  # the highest are the same as among all that take the pod
        else:
            total = self._normalised_anew(feasible)
        for plugin in self.bound.domain_scores:
            score = plugin(feasible)
            if score is not None:
                total += score
        return total

    def _normalised_anew(self, feasible: Bools) -> Ints:
        """Return the scores with their normalised parts as *feasible* makes them."""
        size = self.table.size
        total, weights = self._base(), self.bound.weights
        if self._taints is not None:
            total += weights["TaintToleration"] * _normalised(self._soft[:size], feasible, reverse=True)
        if self._affinity is not None and self._affinity.scores:
            total += weights["NodeAffinity"] * _normalised(self._preferred[:size], feasible, reverse=False)
        return total

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

    def reasons(self, rows: Rows) -> dict[int, list[Reason]]:
        """Return what every filter that refuses a row says, not the first alone: for people, not for placing."""
        found: dict[int, list[Reason]] = {}
        for plugin in self.bound.filters:
            if getattr(plugin, "lazy", False):
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
        if self._demand is not None:
            self._follow(self._demand, position)
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
            if self._soft is not table.zeros and self._taints is not None:
                self._rebuild()  # the first disliked taint: from now on its highest count matters
                return
        self._update(rows)

    def _shared(self) -> bool:
        """Whether scores by resources are those of everybody who asks for the same amounts."""
        table = self.table
        plain = self.bound.fused and not self._others and not table.incomplete and table.size == len(table)
        return plain and demands_of(table).takes(self._amounts)

    def _follow(self, demand: Demand, position: int) -> None:
        """Bring every row up to date by adding what this class knows to the scores of its demand."""
        table = self.table
        if self._static_cursor != table.static_start + len(table.static_log):
            if self._watched or not self._shared():
                self._rebuild()
                return
            static = table.static_log[self._static_cursor - table.static_start :]
            self._static_cursor = table.static_start + len(table.static_log)
            self._judge_static(np.array(list(dict.fromkeys(static)), np.int64))
            if self._soft is not table.zeros and self._taints is not None:
                self._rebuild()  # the first disliked taint: from now on its highest count matters
                return
        self.asked += min(position - self._cursor, table.size)
        if table.size > _FLAT:
            changed = set(table.log[self._cursor - position :])
            self._cursor = position
            self._demands.sync(demand)
            self._update(np.fromiter(changed, np.int64, len(changed)))
            return
        self._cursor = position
        self._demands.sync(demand)
        if not self._watched or demand.flip_start + len(demand.flips) == self._flips:
            np.add(demand.scores[: table.size], self._known_offsets, out=self._known_keys)
            return
        if self._flips < demand.flip_start:
            self._rebuild()
            return
        flips = set(demand.flips[self._flips - demand.flip_start :])
        self._flips = demand.flipped
        rows = np.fromiter(flips, np.int64, len(flips))
        was = self._keys[rows] >= 0
        self._add_up(demand)
        if self._highest_moved(rows, was, self._keys[rows] >= 0):
            self._set_fixed()
            self._add_up(demand)

    def _add_up(self, demand: Demand) -> None:
        np.add(demand.scores[: self.table.size], self._known_offsets, out=self._known_keys)
        self._tops = self._blocks.max(axis=1) if self.table.size > _FLAT else None

    def _highest_moved(self, rows: Rows, was: Bools, now: Bools) -> bool:
        """Count the raw scores of rows that became feasible or ceased to be; return whether a highest changed."""
        gone, come = rows[was & ~now], rows[now & ~was]
        if not len(gone) and not len(come):
            return False
        moved = [highest.move(raw[gone], raw[come]) for raw, highest in self._watched]
        return any(moved)

    def _rebuild(self) -> None:
        table = self.table
        size, capacity = table.size, len(table.alive)
        self.asked += size
        self._epoch = table.epoch
        self._cursor = table.log_start + len(table.log)
        self._static_cursor = table.static_start + len(table.static_log)
        self._block_bits = _BLOCK_BITS
        blocks = (size + (1 << self._block_bits) - 1) >> self._block_bits or 1
        self._keys: Ints = np.full(blocks << self._block_bits, _INFEASIBLE, np.int64)
        self._blocks = self._keys.reshape(blocks, 1 << self._block_bits)
        self._tops = None
        self._suitable: Bools = np.zeros(capacity, np.bool_)
        self._soft = self._preferred = self._images = table.zeros
        self._fixed: Ids | int = 0  #: one number while no raw score is watched
        self._offset: Ints = np.zeros(capacity, np.int64)
        self._watched: list[tuple[Ids, _Highest]] = []
        everything = slice(0, size)
        self._judge_static(everything)
        self._demand = None
        if self._shared():
            self._demands = demands_of(table)
            self._demand = demand = self._demands.of(self._amounts)
            self._demands.sync(demand)
            self._known_keys, self._known_offsets = self._keys[:size], self._offset[:size]
            self._flips = demand.flipped
            self._watch((demand.scores[:size] >= 0) & self._suitable[:size])
            self._set_fixed()
            self._add_up(demand)
            return
        ok, base = self._judge(everything)
        ok &= self._suitable[:size]
        self._watch(ok)
        self._score(ok, base)

    def _watch(self, ok: Bools) -> None:
        """Count the raw scores whose highest decides the normalised ones."""
        size = self.table.size
        if self._taints is not None and self._soft[:size].any():
            self._watched.append((self._soft, _Highest(self._soft[:size][ok])))
        if self._affinity is not None and self._affinity.scores:
            self._watched.append((self._preferred, _Highest(self._preferred[:size][ok])))

    def _score(self, ok: Bools, base: Ints) -> None:
        """Score every row, the normalised parts with the highest raw scores as they are now."""
        size = self.table.size
        self._set_fixed()
        keys = (base << _RANK_BITS) + self._offset[:size]
        keys[~ok] = _INFEASIBLE
        self._keys[:size] = keys
        self._tops = self._blocks.max(axis=1) if size > _FLAT else None

    def _set_fixed(self) -> None:
        """Work out the normalised scores, and with them what is added to every score."""
        weights = self.bound.weights
        fixed: Any = 0
        if self._taints is not None:
            highest = next((w.value for raw, w in self._watched if raw is self._soft), 0)
            lost = MAX_NODE_SCORE * np.minimum(self._soft, highest) // highest if highest else 0
            fixed = fixed + weights["TaintToleration"] * (MAX_NODE_SCORE - lost)
        highest = next((w.value for raw, w in self._watched if raw is self._preferred), 0)
        if highest:
            won = MAX_NODE_SCORE * np.minimum(self._preferred, highest) // highest
            fixed = fixed + weights["NodeAffinity"] * won
        self._fixed = fixed
        self._set_offsets(slice(0, len(self._offset)))

    def _set_offsets(self, rows: Any) -> None:
        """Put together what is added to every score; a node that never takes the pod gets far below zero."""
        offset = self._images[rows].astype(np.int64)
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
        demand = self._demand
        if demand is not None:
            keys = demand.scores.take(rows)
            keys += self._offset.take(rows)
        else:
            ok, keys = self._judge(rows)
            keys <<= _RANK_BITS
            keys += self._offset[rows]
            keys[~ok] = _INFEASIBLE
        old = self._keys[rows]
        if self._watched and self._highest_moved(rows, old >= 0, keys >= 0):
            self._keys[rows] = keys
            if demand is not None:
                self._set_fixed()
                self._add_up(demand)
            else:
                base = self._base() - self._images[: self.table.size]
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
        for plugin in self.bound.static_filters:
            suitable &= plugin.codes(rows) == 0
        self._suitable[rows] = suitable
        if self._taints is not None:
            self._soft = self._changed(self._soft, rows, self._taints.raw(rows))
        if self._affinity is not None and self._affinity.scores:
            self._preferred = self._changed(self._preferred, rows, self._affinity.raw(rows))
        if self.bound.images is not None:
            images = self.bound.images.raw(rows) * self.bound.weights["ImageLocality"]
            self._images = self._changed(self._images, rows, images)
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
        if self.bound.fused and not self.table.incomplete and not gaps:
            return self._judge_fused(rows)
        ok = np.ones(len(self.table.alive[rows]), np.bool_)
        for plugin in self.bound.dynamic_filters:
            ok &= plugin.codes(rows) == 0
        base = np.zeros(len(ok), np.int64)
        if self.bound.fit is not None:
            base += self.bound.fit.raw(rows) * self.bound.weights["NodeResourcesFit"]
        if self.bound.balanced is not None:
            base += self.bound.balanced.raw(rows) * self.bound.weights["NodeResourcesBalancedAllocation"]
        return ok, base

    def _judge_fused(self, rows: Any) -> tuple[Bools, Ints]:
        """Return the same for the default plugins, in fewer steps: this is where the time goes."""
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
        if self.bound.balanced is not None:
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


def _highest(raw: Ids, feasible: Bools) -> int:
    """Return the highest raw score among *feasible*, 0 when there is none; no raw score is negative."""
    open_raw = raw * feasible  # a maximum with `where` takes ten times as long
    return int(open_raw[open_raw.argmax()]) if len(raw) else 0


def _alone(plugin: Any, row: int) -> tuple[Reason, ...]:
    """Return what a plugin says against one row; what breaks it there does not keep the others from answering."""
    try:
        code = int(plugin.codes(np.array([row], np.int64))[0])
    except PluginError as error:
        return (OtherReason(plugin.name, str(error)),)
    return plugin.reasons(row, code) if code else ()


def _normalised(raw: Ids, feasible: Bools, *, reverse: bool) -> Ints:
    """Return raw scores scaled by the highest among *feasible*."""
    highest = _highest(raw, feasible)
    if highest == 0:
        return np.full(len(raw), MAX_NODE_SCORE if reverse else 0, np.int64)
    scaled = MAX_NODE_SCORE * np.minimum(raw, highest) // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled
