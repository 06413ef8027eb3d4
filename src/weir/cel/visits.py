"""How much may one evaluation look at? A bound on elements visited, beside the cost that Kubernetes counts.

Spec: decision 39. A value can be cheap to build and dear to look at: `[x, x]` holds the same list twice, forty of them
inside each other show 2⁴⁰ elements, and upstream's price of `==`, `in`, `distinct`, `sets.*` or `'%s'.format` looks at
the outermost size only. Whatever walks into a value counts here what it visits and ends the evaluation when it was too
much, whatever it has cost. `begin` is called once for each evaluation that can walk into values.
Not here: the cost itself (weir.cel.costs).
"""

from __future__ import annotations

import threading
from typing import Final

#: About 30 ms of comparing.
MOST_VISITS: Final = 40_000


class _Left(threading.local):
    """What the evaluation of this thread may still visit."""

    visits: int = MOST_VISITS


_left: Final = _Left()


def begin() -> None:
    """A new evaluation begins in this thread."""
    _left.visits = MOST_VISITS


def visit(elements: int) -> None:
    """Count *elements* as visited; raises CostLimitExceeded when they are too many."""
    left = _left.visits - elements - 1
    if left < 0:
        from weir.cel.values import CostLimitExceeded  # which itself counts what its equality visits

        raise CostLimitExceeded
    _left.visits = left
