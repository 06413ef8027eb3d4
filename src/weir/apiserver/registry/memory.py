"""How much is kept of what was worked out before? Answers by what was asked, bounded by the bytes of both.

Not here: what is worth keeping, and until when it is true (.pod_spec_cache, .repeated_pods, .repeated_writes).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Memory"]

MOST_BYTES = 4 << 20  # of texts, in each memory
ENTRY_BYTES = 500  # of an answer beside its texts
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Memory(Generic[K, T]):
    """Answers by what was asked, the oldest forgotten when too many bytes are kept."""

    def __init__(self) -> None:
        self.known: dict[K, T] = {}
        self._sizes: dict[K, int] = {}
        self._bytes = 0

    def learn(self, asked: K, answer: T, size: int) -> None:
        """Remember *answer*, in place of an earlier one; *size* is how many bytes the texts of both take."""
        size += ENTRY_BYTES
        self._bytes += size - self._sizes.pop(asked, 0)
        self.known.pop(asked, None)
        self.known[asked], self._sizes[asked] = answer, size
        while self._bytes > MOST_BYTES:
            oldest = next(iter(self.known))
            self._bytes -= self._sizes.pop(oldest)
            del self.known[oldest]
