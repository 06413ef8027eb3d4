"""Random bytes from the operating system, fetched in blocks.

A system call per name releases the GIL and costs more than the rest of name generation. Each piece is handed out
once: `list.pop` is atomic, and a forked process draws its own. Simulations use their own seeded source.
"""

from __future__ import annotations

import os
from typing import Final

_AT_ONCE: Final = 256
_LARGEST: Final = 64  # of buffered pieces
_pieces: dict[int, list[bytes]] = {}


def system_bytes(size: int) -> bytes:
    """Return *size* random bytes, unique to this call."""
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
