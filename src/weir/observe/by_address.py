"""Whose connection makes room when there are too many? The oldest of the address that has most.

So one machine that opens whatever it can loses its own, and another always finds room.
Not here: what a connection is, and how it is cut off (whoever listens).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

__all__ = ["ByAddress"]

Item = TypeVar("Item", bound=Hashable)


class ByAddress(Generic[Item]):
    """At most *most* connections, of each address the oldest first.

    >>> few = ByAddress[str](2)
    >>> few.add("a", "first"), few.add("b", "other"), few.add("a", "second"), few.add("a", "third")
    (None, None, 'first', 'second')
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._of: dict[str, dict[Item, None]] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        return iter([item for items in self._of.values() for item in items])

    def add(self, address: str, item: Item) -> Item | None:
        """Take *item* in; return the one that has to go for it, which is forgotten."""
        self._of.setdefault(address, {})[item] = None
        self._count += 1
        if self._count <= self._most:
            return None
        # the newcomer counts too: who comes once more makes room among its own
        most = max(self._of, key=lambda known: len(self._of[known]))
        evicted = next(iter(self._of[most]))
        self.discard(most, evicted)
        return evicted

    def discard(self, address: str, item: Item) -> None:
        """Forget *item*, if it is still here."""
        items = self._of.get(address)
        if items is not None and item in items:
            del items[item]
            self._count -= 1
            if not items:
                del self._of[address]
