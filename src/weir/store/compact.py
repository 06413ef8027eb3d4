"""When may the past be forgotten, and who sees to it?

Changes are kept for a while (five minutes by default, as Kubernetes does) so that a reader who lost its
connection can resume; a reader who comes later is told so and lists again. Memory is bounded as well:
past `max_changes` the oldest go early.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Protocol

from weir.store.backend import Clock, Store, StoreUnavailable

DEFAULT_KEEP_SECONDS = 300.0
DEFAULT_MAX_CHANGES = 500_000
UPKEEP_SECONDS = 1.0


class _Kept(Protocol):
    @property
    def revision(self) -> int: ...
    @property
    def compacted(self) -> int: ...
    @property
    def kept_changes(self) -> int: ...


class Retention:
    """Remembers which revision was current when, and says what is old enough to go.

    >>> class S: revision, compacted, kept_changes = 10, 1, 9
    >>> keep = Retention(300)
    >>> keep.compact_to(0, S), keep.compact_to(299, S), keep.compact_to(300, S)
    (1, 1, 10)
    """

    def __init__(self, keep_seconds: float, max_changes: int = DEFAULT_MAX_CHANGES) -> None:
        self._keep_seconds = keep_seconds
        self._max_changes = max_changes
        self._samples: deque[tuple[float, int]] = deque()

    def compact_to(self, now: float, log: _Kept) -> int:
        """Return the revision that may be compacted at *now*; call it at intervals."""
        samples = self._samples
        if not samples or samples[-1][1] != log.revision:
            samples.append((now, log.revision))
        target = log.compacted
        while samples and samples[0][0] <= now - self._keep_seconds:
            target = max(target, samples.popleft()[1])
        while samples and log.kept_changes - (target - log.compacted) > self._max_changes:
            target = max(target, samples.popleft()[1])
        return target


async def keep_up(store: Store, clock: Clock, *, interval_seconds: float = UPKEEP_SECONDS) -> None:
    """Call `Store.upkeep` for ever; a store that is away for a while is tried again."""
    while True:
        with suppress(StoreUnavailable):  # writers are told; upkeep only has to try again
            await store.upkeep(clock.time())
        await clock.sleep(interval_seconds)
