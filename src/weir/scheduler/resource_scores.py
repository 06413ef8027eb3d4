"""Resource scores per amount of CPU and memory, shared by all pod classes with the same requests.

Spec: core.md 3.7.5, 3.7.6 (NodeResourcesFit with LeastAllocated, NodeResourcesBalancedAllocation, at their defaults).
Classes that differ in tolerations, labels or selectors mostly request the same few amounts, and the score for an
amount depends on nothing else. After a change, few stale rows of one entry are evaluated in plain Python, which is
faster than a chain of numpy calls; once enough have accumulated, they are evaluated for all entries in use at once.
Beyond the maximum number of amounts a class computes its own scores.

Optimized form of the plugins NodeResourcesFit and NodeResourcesBalancedAllocation;
tests/unit/scheduler/test_resource_scores.py and tests/property/test_scheduler.py compare them to the last bit; bench:
"50 classes mixed, 5,000 nodes" of `python -m bench scheduler`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from weir.scheduler.framework import MAX_NODE_SCORE, FilterPlugin, ScorePlugin
from weir.scheduler.node_columns import Ints, Rows
from weir.scheduler.node_table import (
    ALLOC_CPU,
    ALLOC_MEMORY,
    BALANCE,
    FREE_CPU,
    FREE_MEMORY,
    FREE_PODS,
    SPARE_CPU,
    SPARE_MEMORY,
    USED_CPU,
    USED_MEMORY,
    NodeTable,
)
from weir.scheduler.plugins.node_resources_balanced_allocation import BalancedScore
from weir.scheduler.plugins.node_resources_fit import BoundNodeResourcesFit
from weir.scheduler.pod_class import PodClass
from weir.scheduler.profile_arguments import FitArguments

#: A score lies above these bits; below is room for the order of nodes that score the same.
RANK_BITS: Final = 24
#: Where the pod does not fit; two of them added are still a number of 64 bits.
NEVER: Final = -(2**61)
#: So many changed rows are judged one by one; more are judged for all entries together.
_FEW: Final = 6
#: An entry unused for this many evaluation rounds is dropped.
_IDLE_ROUNDS: Final = 64
_LEAST: Final = 8
_MOST: Final = 256
_MOST_BYTES: Final = 64 * 2**20
_LONGEST_FLIPS: Final = 4096
_NOT_ASKED: Final = -(2**62)
#: 50 + (50 + gain) / 2, cut towards zero, by gain; negative gains are counted from the end, as numpy indexes.
IMPROVEMENT: Final = np.array(
    [50 + int((50 + gain) / 2) for gain in (*range(101), *range(-100, 0))], np.int64
)
_IMPROVEMENT: Final[list[int]] = IMPROVEMENT.tolist()


@dataclass(frozen=True)
class DefaultResources:
    """That a class is judged by NodeResourcesFit and NodeResourcesBalancedAllocation at their defaults alone."""

    others: tuple[tuple[str, int], ...]  #: requests beyond CPU and memory
    balanced: bool  #: whether NodeResourcesBalancedAllocation scores


def default_resources(
    filters: Sequence[FilterPlugin], scores: Sequence[tuple[ScorePlugin, int]]
) -> DefaultResources | None:
    """Return how the faster twin stands in for these plugins, all that look at pods on nodes; None: it cannot."""
    fit = filters[0] if len(filters) == 1 else None
    if not isinstance(fit, BoundNodeResourcesFit) or fit.delegated or fit.arguments != FitArguments():
        return None
    balanced = False
    for plugin, weight in scores:
        if isinstance(plugin, BalancedScore) and plugin.resources == ("cpu", "memory"):
            balanced = True
        elif plugin is not fit:
            return None
        if weight != 1:
            return None
    if all(plugin is not fit for plugin, _ in scores):
        return None
    return DefaultResources(tuple(fit.others.items()), balanced)


class Amounts(NamedTuple):
    """The amounts of a pod class: requests, requests as scoring counts them, and whether balance scores."""

    cpu: int
    memory: int
    counted_cpu: int
    counted_memory: int
    balanced: bool


def amounts_of(pod: PodClass, *, balanced: bool) -> Amounts:
    """Return the CPU and memory amounts of *pod*; other resources are ignored."""
    requests = pod.requests
    return Amounts(
        requests.get("cpu", 0), requests.get("memory", 0), pod.nonzero_cpu, pod.nonzero_memory, balanced
    )


class AmountScores:
    """The scores for some amounts, by row; valid after `ResourceScores.sync`."""

    __slots__ = ("amounts", "cursor", "flip_start", "flips", "number", "round", "scores")

    def __init__(self, amounts: Amounts) -> None:
        self.amounts = amounts
        self.number = -1  #: of its row in the matrix; -1 while its scores are not kept
        self.scores: Ints = np.zeros(0, np.int64)
        self.cursor = 0  #: how much of the table's log its scores contain
        self.round = 0
        self.flips: list[int] = []  #: rows that began or ceased to fit, one after the other
        self.flip_start = 0  #: how many were dropped from the beginning of `flips`

    @property
    def flipped(self) -> int:
        """How many rows have ever flipped."""
        return self.flip_start + len(self.flips)

    def flip(self, row: int) -> None:
        self.flips.append(row)
        if len(self.flips) > _LONGEST_FLIPS:
            self.flip_start += len(self.flips)
            self.flips.clear()


def resource_scores_of(table: NodeTable) -> ResourceScores:
    """Return the scores kept over *table*, created on first use."""
    if table.memory is None:
        table.memory = ResourceScores(table)
    found: ResourceScores = table.memory
    return found


class ResourceScores:
    """The scores for all requested amounts, over one table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._known: dict[Amounts, AmountScores] = {}
        self._kept: list[AmountScores] = []  #: those with scores, by their number
        self._matrix: Ints = np.zeros((0, 0), np.int64)
        self._needed: Ints = np.zeros((0, 3, 1), np.int64)
        self._asked: Ints = np.zeros((0, 2, 1), np.int64)
        self._counted: Ints = np.zeros((0, 2, 1), np.int64)
        self._balanced: Ints = np.zeros((0, 1), np.int64)
        self._epoch = -1
        self._cursor = 0  #: how much of the log is in the scores of every entry kept
        self._round = 0

    def of(self, amounts: Amounts) -> AmountScores:
        """Return the entry of *amounts*; ask again when the table's epoch is another."""
        if self._epoch != self._table.epoch:
            self._start_over()
        found = self._known.get(amounts)
        if found is None:
            found = self._known[amounts] = AmountScores(amounts)
        return found

    def takes(self, amounts: Amounts) -> bool:
        """Whether the scores of *amounts* are kept, or could be; there is room for so many only."""
        if self._epoch != self._table.epoch:
            return True
        known = self._known.get(amounts)
        return (known is not None and known.number >= 0) or len(self._kept) < self._most()

    def _most(self) -> int:
        return max(_LEAST, min(_MOST, _MOST_BYTES // (8 * len(self._table.alive))))

    def sync(self, entry: AmountScores) -> None:
        """Bring the scores of *entry* up to date with the table."""
        table = self._table
        position = table.log_start + len(table.log)
        if self._epoch != table.epoch or self._cursor < table.log_start:
            self._start_over()
        if entry.number < 0:
            self._keep(entry, position)
        behind = position - entry.cursor
        if not behind:
            return
        entry.round = self._round
        if position - self._cursor > _FEW:
            self._catch_up(position, entry)
            return
        scores, judge, fresh, flip = entry.scores, self._judge_one, table.fresh, entry.flip
        amounts = entry.amounts
        for row in table.log[-behind:]:
            score = judge(fresh.get(row) or table.state[:, row].tolist(), amounts)
            if scores.item(row) ^ score < 0:  # their signs differ
                flip(row)
            scores[row] = score
        entry.cursor = position

    # ── which scores are kept ────────────────────────────────────────────────────────────────────

    def _start_over(self) -> None:
        """Keep nothing: rows came, went or changed their places."""
        table = self._table
        self._epoch, self._cursor = table.epoch, table.log_start + len(table.log)
        for entry in self._kept:
            entry.number = -1
        self._kept = []
        self._known = {}  # a class that holds an entry gets a new one, since its rows were renumbered
        if self._matrix.shape[1] != len(table.alive):
            self._matrix = np.zeros((0, len(table.alive)), np.int64)

    def _keep(self, entry: AmountScores, position: int) -> None:
        """Judge every row for an entry that is new or was dropped."""
        if len(self._kept) >= self._most():
            self._drop(min(self._kept, key=lambda kept: kept.round))
        number = len(self._kept)
        if number == len(self._matrix):
            self._grow()
        self._kept.append(entry)
        self._seat(entry, number)
        amounts = entry.amounts
        self._needed[number, :, 0] = amounts.cpu or _NOT_ASKED, amounts.memory or _NOT_ASKED, 1
        self._asked[number, :, 0] = amounts.cpu, amounts.memory
        self._counted[number, :, 0] = 100 * amounts.counted_cpu, 100 * amounts.counted_memory
        self._balanced[number, 0] = amounts.balanced
        size = self._table.size
        state = self._table.state[:, :size]
        entry.scores[:size] = self._judge_many(slice(number, number + 1), state)[0]
        entry.flip_start, entry.flips = (
            entry.flipped + _LONGEST_FLIPS,
            [],
        )  # classes that followed count again
        entry.cursor, entry.round = position, self._round

    def _seat(self, entry: AmountScores, number: int) -> None:
        entry.number, entry.scores = number, self._matrix[number]

    def _grow(self) -> None:
        rows = max(8, 2 * len(self._matrix))

        def larger(old: Ints) -> Ints:
            return np.concatenate([old, np.zeros((rows - len(old), *old.shape[1:]), np.int64)])

        self._matrix, self._needed = larger(self._matrix), larger(self._needed)[:rows]
        self._asked, self._counted = larger(self._asked)[:rows], larger(self._counted)[:rows]
        self._balanced = larger(self._balanced)[:rows]
        for entry in self._kept:
            entry.scores = self._matrix[entry.number]

    def _drop(self, entry: AmountScores) -> None:
        """Forget the scores of *entry*; the last one takes its place."""
        last, number = self._kept.pop(), entry.number
        if last is not entry:
            for column in (self._matrix, self._needed, self._asked, self._counted, self._balanced):
                column[number] = column[last.number]
            self._kept[number] = last
            self._seat(last, number)
        entry.number, entry.scores = -1, np.zeros(0, np.int64)
        if self._known.get(entry.amounts) is entry:
            del self._known[entry.amounts]

    def _catch_up(self, position: int, asking: AmountScores) -> None:
        """Judge the rows that changed for every entry kept."""
        table = self._table
        changed = set(table.log[self._cursor - table.log_start :])
        self._round += 1
        asking.round = self._round
        for entry in [kept for kept in self._kept if kept.round < self._round - _IDLE_ROUNDS]:
            self._drop(entry)
        rows: Rows = np.fromiter(changed, np.int64, len(changed))
        kept = len(self._kept)
        scores = self._judge_many(slice(0, kept), table.state.take(rows, axis=1))
        differ = self._matrix[:kept].take(rows, axis=1)
        differ ^= scores
        if np.minimum.reduce(differ, axis=None) < 0:  # some signs differ: what fits does not, or the reverse
            for number, at in zip(*map(np.ndarray.tolist, (differ < 0).nonzero()), strict=True):
                self._kept[number].flip(int(rows[at]))
        self._matrix[:kept, rows] = scores
        self._cursor = position
        for entry in self._kept:
            entry.cursor = position

    # ── judging ──────────────────────────────────────────────────────────────────────────────────

    def _judge_many(self, which: slice, state: Ints) -> Ints:
        """Return the scores of some entries on the nodes whose columns *state* holds."""
        capacity = state[ALLOC_CPU : ALLOC_MEMORY + 1]
        short = np.logical_or.reduce(state[FREE_CPU : FREE_PODS + 1] < self._needed[which], axis=1)
        left = state[SPARE_CPU : SPARE_MEMORY + 1] - self._counted[which]
        left //= capacity
        np.maximum(left, 0, out=left)
        base = left[:, 0] + left[:, 1]
        base >>= 1
        shares = (state[USED_CPU : USED_MEMORY + 1] + self._asked[which]) / capacity
        np.minimum(shares, 1.0, out=shares)
        balance = shares[:, 0] - shares[:, 1]
        np.abs(balance, out=balance)
        balance *= -0.5
        balance += 1.0
        balance *= MAX_NODE_SCORE
        gain = balance.astype(np.int64)
        gain -= state[BALANCE]
        improvement = IMPROVEMENT.take(gain, mode="wrap")
        improvement *= self._balanced[which]
        base += improvement
        base <<= RANK_BITS
        np.putmask(base, short, NEVER)
        return base

    @staticmethod
    def _judge_one(node: list[int], amounts: Amounts) -> int:
        """Return the score for some amounts on one node; the same steps as above, on numbers."""
        cpu, memory, counted_cpu, counted_memory, balanced = amounts
        if (cpu and node[FREE_CPU] < cpu) or (memory and node[FREE_MEMORY] < memory) or node[FREE_PODS] < 1:
            return NEVER
        alloc_cpu, alloc_memory = node[ALLOC_CPU], node[ALLOC_MEMORY]
        cpu_left = (node[SPARE_CPU] - 100 * counted_cpu) // alloc_cpu
        memory_left = (node[SPARE_MEMORY] - 100 * counted_memory) // alloc_memory
        base = ((cpu_left if cpu_left > 0 else 0) + (memory_left if memory_left > 0 else 0)) >> 1
        if balanced:
            cpu_share = float(node[USED_CPU] + cpu) / alloc_cpu
            memory_share = float(node[USED_MEMORY] + memory) / alloc_memory
            balance = abs(
                (cpu_share if cpu_share < 1.0 else 1.0) - (memory_share if memory_share < 1.0 else 1.0)
            )
            gain = int((balance * -0.5 + 1.0) * MAX_NODE_SCORE) - node[BALANCE]
            base += _IMPROVEMENT[gain]
        return base << RANK_BITS
