"""Budget for what webhook reviews make the operator hold before the cluster shows it.

A review announces a write that may never come: another webhook refuses it, its writer gives up, or the caller lied.
What is held for it costs a token. It comes back when the cluster shows what was announced; what is not shown within
`HOLD_SECONDS` is dropped, and its token comes back slowly. So writes that are stored are never slowed down, and reviews
that nothing follows can fill neither the table of taints nor pods nor nodes, however often they are repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Final, Generic, TypeVar

from weir.clock import Clock

#: A hold younger than this is taken again without a token; one older than the second is dropped.
RENEW_SECONDS: Final = 30.0
HOLD_SECONDS: Final = 90.0

Key = TypeVar("Key", bound=Hashable)


class Holds(Generic[Key]):
    """At most *most* held keys that nothing has shown; a token that was lost comes back after *refill_seconds*."""

    def __init__(self, clock: Clock, most: int, refill_seconds: float) -> None:
        self._clock, self._most, self._refill_seconds = clock, most, refill_seconds
        self._tokens, self._filled = float(most), clock.monotonic()
        self._held: dict[Key, float] = {}  #: when each was last paid for

    def __len__(self) -> int:
        return len(self._held)

    def take(self, keys: Collection[Key]) -> bool:
        """Hold all of *keys*; False, and nothing is held, when there are not enough tokens."""
        now = self._clock.monotonic()
        self._tokens = min(self._most, self._tokens + (now - self._filled) / self._refill_seconds)
        self._filled = now
        due = [key for key in set(keys) if now - self._held.get(key, -HOLD_SECONDS) >= RENEW_SECONDS]
        if len(due) > self._tokens or len(self._held.keys() | due) > self._most:
            return False
        self._tokens -= len(due)
        self._held |= dict.fromkeys(due, now)
        return True

    def shown(self, keys: Iterable[Key]) -> None:
        """Give the tokens of *keys* back: the cluster has them now."""
        for key in keys:
            if self._held.pop(key, None) is not None:
                self._tokens = min(self._most, self._tokens + 1)

    def expired(self) -> list[Key]:
        """Drop and return what nothing has shown in time."""
        limit = self._clock.monotonic() - HOLD_SECONDS
        old = [key for key, since in self._held.items() if since <= limit]
        for key in old:
            del self._held[key]
        return old
