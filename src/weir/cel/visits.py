"""How much may one evaluation look at? A bound on elements visited, beside the cost that Kubernetes counts.

Spec: decision 39. A value can be cheap to build and dear to look at: `[x, x]` holds the same list twice, forty of them
inside each other show 2⁴⁰ elements, and upstream's price of `==`, `in`, `distinct`, `sets.*` or `'%s'.format` looks at
the outermost size only. Whatever walks into a value counts here what it visits and ends the evaluation when it was too
much, whatever it has cost. `begin` is called once for each evaluation that can walk into values.
What surprises: Python keeps the frames in chunks of 16 KiB, and a walk that goes to and fro over the end of one
maps and unmaps memory with every call: at an unlucky depth of the stack the same evaluation takes seven times as long.
An evaluation that walks therefore begins in a frame so large that it has a chunk of its own, with room for its calls.
Not here: the cost itself (weir.cel.costs).
"""

from __future__ import annotations

import threading
from types import CodeType
from typing import Final

#: About 30 ms of comparing.
MOST_VISITS: Final = 40_000


#: Slots of the frame, 64 KB: the chunk for it is twice as large, and the other half is room for some 400 calls.
_SLOTS: Final = 8000


def roomy(code: CodeType) -> CodeType:
    """Return *code* with a frame that begins a chunk of its own, which costs 10 µs a call."""
    return code.replace(co_stacksize=max(code.co_stacksize, _SLOTS))


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
