"""Which is the best node that a search accepts, without a search on every node?

A search for devices on one node costs more than everything else about it, and a cluster of 100,000 nodes would pay for
as many before its first pod is placed. So nodes are asked in the order of their scores, and the first that accepts is
the answer: it is what asking all of them would have found, as long as the search itself adds nothing to the score and
no score is normalised over the nodes that are left. What a search refused is not asked again until it may have
changed; a chain of refusals is asked in batches twice as long each time.
A fast twin of the long way of weir.scheduler.cycle; test_best_first.py in tests/unit/scheduler holds them together; the
curve `claims` of `python -m bench growth` pays for it.
What surprises: a search that breaks on a node that is not asked breaks no attempt (decision 95).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from weir.scheduler.feasibility import Feasibility
from weir.scheduler.node_columns import Bools, Rows

#: Up to this many nodes Kubernetes asks every one of them, so that one on which a plugin breaks ends the attempt.
ASKS_ALL: Final = 100
#: So many blocks of rows are looked through first.
_LOOKED: Final = 16


def best_accepted(feasibility: Feasibility) -> int | None:
    """Return the best row that every filter accepts; None when all have to be asked to know it, or there is none."""
    search = feasibility.plugins.lazy_filter
    if search is None or len(feasibility.table) <= ASKS_ALL or not search.scores_alike():
        return None
    row = feasibility.best()
    if row is None or feasibility.normalizes:
        return None
    refused = search.refused()
    if not refused[row] and not search.codes(np.array([row], np.int64))[0]:
        return row
    batch = 2
    while True:
        rows = best_rows(feasibility, search.refused(), batch)
        if not len(rows):
            return None
        accepted = np.flatnonzero(search.codes(rows) == 0)
        if len(accepted):
            return int(rows[accepted[0]])
        batch *= 2


def best_rows(feasibility: Feasibility, without: Bools, wanted: int) -> Rows:
    """Return so many of the best rows, or fewer but one if there is one, the best first; none of those *without*.

    In a large cluster they are looked for in the blocks with the best rows: what is better than the best row of every
    other block comes first.
    """
    keys, blocks = feasibility.keys(), feasibility.blocks()
    if blocks is not None:
        tops, by_block = blocks
        looked = max(_LOOKED, 2 * wanted)
        while looked < len(tops):
            first = len(tops) - looked
            order = np.argpartition(tops, first)
            least = int(tops[order[first]])  # no row of another block is better
            rows = (order[first:, None] * by_block.shape[1] + np.arange(by_block.shape[1])).ravel()
            rows = rows[rows < len(keys)]
            rows = rows[(keys[rows] >= max(least, 0)) & ~without[rows]]
            if len(rows) or least < 0:
                return rows[np.argsort(-keys[rows])[:wanted]]
            looked *= 4
    keys = np.where(without[: len(keys)], -1, keys)
    size = min(wanted, len(keys))
    rows = np.argpartition(keys, len(keys) - size)[len(keys) - size :]
    rows = rows[keys[rows] >= 0]
    return rows[np.argsort(-keys[rows])]
