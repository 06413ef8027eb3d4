"""Connection limit that evicts the oldest connection of the address with the most.

One client that opens many connections loses its own, and other clients still get in.
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
        # the new connection counts too, so a repeated client evicts its own
        largest, evicted = self._next_evicted()
        self.discard(largest, evicted)
        return evicted

    def next_evicted(self) -> Item | None:
        """Return the oldest item of the address with the most, None without items."""
        return self._next_evicted()[1] if self._of else None

    def _next_evicted(self) -> tuple[str, Item]:
        largest = max(self._of, key=lambda address: len(self._of[address]))
        return largest, next(iter(self._of[largest]))

    def pop(self, *, newest: bool) -> Item:
        """Take out the newest or the oldest item of the address whose turn it is; addresses take turns."""
        address = next(iter(self._of))
        items = self._of.pop(address)
        item = next(reversed(items) if newest else iter(items))
        del items[item]
        self._count -= 1
        if items:
            self._of[address] = items  # behind the others
        return item

    def discard(self, address: str, item: Item) -> None:
        """Forget *item*, if it is still here."""
        items = self._of.get(address)
        if items is not None and item in items:
            del items[item]
            self._count -= 1
            if not items:
                del self._of[address]
