"""Best node that passes an expensive filter, evaluated in score order until one passes.

A device search on one node costs more than all other filters together. The first node accepted is the same as
evaluating all of them would give, as long as the search adds nothing to the score and no score is normalized over the
remaining nodes. Rejections are kept until they may have changed; a run of rejections is evaluated in batches of
doubling size. A search that fails on a node that is never evaluated fails no attempt (decision 95).

Optimized form of weir.scheduler.cycle; tests/unit/scheduler/test_best_first.py compares them; bench: the curve
`claims` of `python -m bench growth`.
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
    """Return the best row that every filter accepts; None if there is none or all rows must be evaluated."""
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
