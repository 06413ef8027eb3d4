"""Garbage collector and allocator settings of a process.

Requests, watches and decisions create few cycles, and each full collection walks everything long-lived. So objects
alive at startup are frozen, and collections are rare.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

#: Objects made before the youngest are looked at, and how many such looks come before the older ones are.
_THRESHOLDS: Final = (200_000, 20, 20)


def calm_collector() -> None:
    """Look for cycles rarely from now on, and never among what is there now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


#: Thresholds of the three generations.
_RARELY: Final = (10_000_000, 20, 100)


@contextmanager
def collect_rarely(*, then: bool = True) -> Iterator[None]:
    """Look for cycles rarely within a block: little of what is made has any, and each look walks all of it.

    Without *then* there is no look when the block ends either, which suits a process that ends soon: what was made
    joins the oldest objects unseen.
    """
    before = gc.get_threshold()
    gc.set_threshold(*(max(pair) for pair in zip(before, _RARELY, strict=True)))
    try:
        yield
    finally:
        if not then and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*before)


#: Of the C library's `mallopt`: from which size on a block is mapped by itself (and given back when it is freed), how
#: much free memory at the end of the heap is kept, and how many heaps threads may have.
_MALLOC: Final = {-3: 128 << 10, -1: 1 << 20, -8: 1}


def return_memory() -> None:
    """Return freed blocks of bodies and responses to the system, where the C library supports it.

    Left alone it learns to keep blocks of up to 32 MiB for later, and a heap for each thread: after some hundred large
    bodies at once a server keeps several times what it holds.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in _MALLOC.items():
            mallopt(parameter, value)


TRIM_SECONDS: Final = 30.0


async def trim_for_ever() -> None:
    """Give whole pages back that lie free between others, from time to time.

    Objects that came and went leave holes; the C library gives back by itself only what is free at the end of its heap.
    On a thread: it takes some milliseconds, in which the event loop goes on.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library
        return
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        await asyncio.to_thread(trim, 0)
