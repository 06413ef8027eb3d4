"""Where do random characters come from? From the system, many at a time.

Five bytes for a name take a call of the system, and that lets another thread have the interpreter: both together cost
more than all else about the name. So bytes are drawn for many names at once, and each is given out once: taking the
last element of a list cannot be interrupted, and a process that is forked off draws its own.
Not here: what names look like (.names); a simulation has its own source, so that it can be repeated.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["system_bytes"]

_AT_ONCE: Final = 256
_LARGEST: Final = 64  # of pieces that are kept; who wants more asks less often
_pieces: dict[int, list[bytes]] = {}


def system_bytes(size: int) -> bytes:
    """Return *size* random bytes that nobody else gets."""
    if not 0 < size <= _LARGEST:
        return os.urandom(size)
    try:
        return _pieces[size].pop()
    except (KeyError, IndexError):
        drawn = os.urandom(size * _AT_ONCE)
        first, *others = [drawn[at : at + size] for at in range(0, len(drawn), size)]
        _pieces.setdefault(size, []).extend(others)
        return first


os.register_at_fork(after_in_child=_pieces.clear)
