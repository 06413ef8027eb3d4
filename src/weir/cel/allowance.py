"""Bound on the expression text compiled for one purpose.

One expression is bounded by its length and its cost, an object by its size alone: a million bytes of small expressions
take as long as ten seconds to compile. Within `allowance` every text that is compiled is counted; what
is cached (selectors of devices) is not compiled again, and free.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooMuchText(Exception):
    """More expressions than one purpose may have."""


class _Left(threading.local):
    characters: int | None = None


_left = _Left()


@contextmanager
def allowance(characters: int) -> Iterator[None]:
    """Let at most *characters* of expressions be compiled by this thread within the block; beyond, TooMuchText.

    >>> with allowance(10):
    ...     charge(6)
    ...     charge(6)
    Traceback (most recent call last):
    weir.cel.allowance.TooMuchText
    """
    before, _left.characters = _left.characters, characters
    try:
        yield
    finally:
        _left.characters = before


def charge(characters: int) -> None:
    """Take *characters* from the allowance, where there is one; raises TooMuchText."""
    left = _left.characters
    if left is not None:
        if characters > left:
            raise TooMuchText
        _left.characters = left - characters
