"""Device feasibility per node for claims with equal requests, re-evaluated only where devices or nodes changed.

Claims made from one template have equal requests, so a result for one on a node holds for the next until a device
there is allocated, released, tainted or republished. weir.scheduler.claims logs those nodes and a ClaimFeasibility
reads the log from where it stopped. A row is evaluated on demand: a node another plugin rejected costs nothing, and a
failing selector there fails no attempt.

Optimized form of weir.devices.allocation_search; tests/unit/scheduler/plugins/test_dynamic_resources.py compares them;
bench: "decided and promised by the engine alone, 200 nodes" of `python -m bench claims`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from weir.devices.allocation_search import MOST_STEPS, Solution
from weir.devices.outcome import CANNOT_ALLOCATE, INVALID_POOLS
from weir.objects.core import Node
from weir.objects.resource import ResourceClaim
from weir.scheduler.claims import EVERYWHERE, Claims
from weir.scheduler.node_columns import Bools, Ids, Ints, Rows
from weir.scheduler.node_table import NodeTable

#: Codes of what a search found on a node.
FITS, REFUSED, INVALID = 0, 1, 2
_MESSAGES: Final = {CANNOT_ALLOCATE: REFUSED, INVALID_POOLS: INVALID}
_MOST_SHAPES: Final = 256

_encode = msgspec.json.Encoder(order="sorted").encode


class ClaimFeasibility:
    """One list of unallocated claims, as far as their specs go, and every node."""

    def __init__(self, claims: Claims, table: NodeTable, most_steps: int = MOST_STEPS) -> None:
        self._claims, self._table, self._most_steps = claims, table, most_steps
        self._nodes: list[Node | None] = []  # as they were when their rows were judged
        self._codes: Ids = np.zeros(0, np.int32)
        self._scores: Ints = np.zeros(0, np.int64)
        self._stale: Bools = np.zeros(0, np.bool_)
        self._refused: Bools = np.zeros(0, np.bool_)
        self._found: dict[int, Solution] = {}  # where claims fit, as long as the row is not stale
        self._static_cursor = -1
        self._classes_version = -1
        self._cursor = -1
        self.judged = 0  #: searches made, for tests and measurements

    def codes(self, wanted: Sequence[ResourceClaim], rows: Rows) -> Ids:
        """Return for each of *rows* whether *wanted* can be allocated there; raises AllocationError."""
        self._catch_up()
        for row in rows[self._stale[rows]].tolist():
            node = self._table.nodes[row]
            if node is None:
                continue
            found = self._claims.allocator.solve(wanted, node, self._most_steps)
            self.judged += 1
            if isinstance(found, str):
                self._codes[row], self._scores[row] = _MESSAGES[found], 0
            else:
                self._codes[row], self._scores[row] = FITS, found.score
                self._found[row] = found
            self._stale[row] = False
            self._refused[row] = bool(self._codes[row])
        return self._codes[rows]

    def refused(self) -> Bools:
        """Return which rows are known to be refused: judged, and not stale."""
        self._catch_up()
        return self._refused[: self._table.size]

    def solution(self, wanted: Sequence[ResourceClaim], row: int) -> Solution:
        """Return the devices that *wanted* get in a row that was found to have them."""
        self.codes(wanted, np.array([row]))
        return self._found[row]

    def scores(self) -> Ints:
        """Return the score of every row that was judged."""
        return self._scores[: self._table.size]

    def _catch_up(self) -> None:
        claims, table = self._claims, self._table
        position = claims.log_start + len(claims.log)
        behind = self._cursor - claims.log_start
        size = len(table.alive)
        if len(self._stale) != size:
            self._codes, self._scores = np.zeros(size, np.int32), np.zeros(size, np.int64)
            self._stale, self._refused = np.ones(size, np.bool_), np.zeros(size, np.bool_)
            self._nodes = [None] * size
        if behind < 0 or self._classes_version != claims.classes_version:
            self._forget(slice(None))
        elif self._cursor != position:
            for name in set(claims.log[behind:]):
                if name == EVERYWHERE:
                    self._forget(slice(None))
                    break
                row = table.row_of.get(name)
                if row is not None:
                    self._forget(row)
        self._cursor, self._classes_version = position, claims.classes_version
        static = table.static_start + len(table.static_log)
        if self._static_cursor != static:
            seen = self._static_cursor - table.static_start
            for row in set(table.static_log[seen:]) if seen >= 0 else range(len(table.nodes)):
                if self._nodes[row] is not table.nodes[row]:
                    self._nodes[row] = table.nodes[row]
                    self._forget(row)
            self._static_cursor = static

    def _forget(self, rows: int | slice) -> None:
        self._stale[rows], self._refused[rows] = True, False


class ClaimFeasibilities:
    """Results over one node table by the claims' requests; the least recently used are dropped."""

    def __init__(self, claims: Claims, table: NodeTable, most_steps: int = MOST_STEPS) -> None:
        self._claims, self._table, self._most_steps = claims, table, most_steps
        self._by_shape: dict[Any, ClaimFeasibility] = {}

    def of(self, wanted: Sequence[ResourceClaim]) -> ClaimFeasibility:
        """Return the results for claims with the same requests as *wanted*."""
        shape = tuple(_encode(claim.spec) for claim in wanted)
        found = self._by_shape.pop(shape, None)
        if found is None:
            found = ClaimFeasibility(self._claims, self._table, self._most_steps)
            if len(self._by_shape) >= _MOST_SHAPES:
                self._by_shape.pop(next(iter(self._by_shape)))
        self._by_shape[shape] = found
        return found
