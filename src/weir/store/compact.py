"""Compaction: drops old revisions by age and by number.

Changes are kept for five minutes by default, as in Kubernetes, so that a disconnected watch can resume; later it gets
an error and relists. Past `max_changes` the oldest are dropped early.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import NamedTuple, Protocol

from weir.store.backend import Store, StoreUnavailable, Timer

DEFAULT_KEEP_SECONDS = 300.0
DEFAULT_MAX_CHANGES = 500_000
UPKEEP_SECONDS = 1.0


class _Changing(Protocol):
    @property
    def revision(self) -> int: ...
    @property
    def compacted(self) -> int: ...
    @property
    def total_changes(self) -> int: ...
    @property
    def kept_changes(self) -> int: ...


class _Sample(NamedTuple):
    time: float
    revision: int
    total_changes: int


class Retention:
    """Remembers which revision was current when, and says what is old enough to go.

    >>> class S: revision, compacted, total_changes, kept_changes = 10, 1, 9, 9
    >>> keep = Retention(300)
    >>> keep.compact_to(0, S), keep.compact_to(299, S), keep.compact_to(300, S)
    (1, 1, 10)
    """

    def __init__(self, keep_seconds: float, max_changes: int = DEFAULT_MAX_CHANGES) -> None:
        self._keep_seconds = keep_seconds
        self._max_changes = max_changes
        self._samples: deque[_Sample] = deque()

    def compact_to(self, now: float, log: _Changing) -> int:
        """Return the revision that may be compacted at *now*; call it at intervals."""
        samples, total = self._samples, log.total_changes
        if not samples or samples[-1].revision != log.revision:
            samples.append(_Sample(now, log.revision, total))
        target, kept = log.compacted, log.kept_changes
        while samples and (samples[0].time <= now - self._keep_seconds or kept > self._max_changes):
            sample = samples.popleft()
            target = max(target, sample.revision)
            kept = min(kept, total - sample.total_changes)
        return target


async def upkeep_loop(store: Store, clock: Timer, *, interval_seconds: float = UPKEEP_SECONDS) -> None:
    """Call `Store.upkeep` for ever; a store that is away for a while is tried again."""
    while True:
        with suppress(StoreUnavailable):  # writers get the error; upkeep only has to try again
            await store.upkeep(clock.steady_time())
        await clock.sleep(interval_seconds)
