"""State in memory: what every backend reads, and a backend of its own for tests, simulations and `what-if`.

The reference for the other backends: only weir.store.log and weir.store.memory.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from weir.store.backend import (
    Deliver,
    Ended,
    KeyValue,
    Page,
    Result,
    Store,
    StoreUnavailable,
    Timer,
    Watch,
    Write,
    check_writes,
)
from weir.store.log import Log

# ── compaction: drops old revisions by age and by number ──
# Changes are kept for five minutes by default, as in Kubernetes, so that a disconnected watch can resume; later it gets
# an error and relists. Past `max_changes` the oldest are dropped early.


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


# ── state in memory: what every backend reads, and a backend of its own for tests, simulations and `what-if` ──


class ReadCache:
    """The reading half of `weir.store.backend.Store`."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def revision(self) -> int:
        return self._log.revision

    @property
    def compacted(self) -> int:
        return self._log.compacted

    def get(self, key: str) -> KeyValue | None:
        return self._log.get(key)

    def get_at(self, key: str, revision: int) -> KeyValue | None:
        return self._log.get_at(key, revision)

    def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        return self._log.range(prefix, start=start, limit=limit, revision=revision)

    def count(self, prefix: str) -> int:
        return self._log.count(prefix)

    def watch(self, prefix: str, after: int, deliver: Deliver, ended: Ended | None = None) -> Watch:
        return self._log.watch(prefix, after, deliver, ended)

    async def fresh(self) -> int:
        """Return the revision that reads see: there is no other writer."""
        return self._log.revision

    async def stale(self, key: str) -> bool:
        """Return whether *key* lies on the disk in an older form: not where there is no disk."""
        return False

    async def until(self, revision: int) -> None:
        await self._log.until(revision)


class MemoryStore(ReadCache):
    """The contract of `weir.store.backend.Store`, in memory."""

    def __init__(
        self,
        *,
        time: Callable[[], float] = time.time,
        keep_seconds: float = DEFAULT_KEEP_SECONDS,
        revision: int = 1,
        items: Iterable[KeyValue] = (),
    ) -> None:
        """Start at *revision* with *items*; *time* (seconds since the epoch) is what ttl_seconds counts from."""
        super().__init__(Log(revision, revision, items))
        self._time = time
        self._retention = Retention(keep_seconds)
        self._closed = False

    async def commit(self, writes: Sequence[Write]) -> list[Result]:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        check_writes(writes)
        results = self._log.decide(writes, self._time())
        self._log.apply([result.event for result in results if result.event is not None])
        return results

    async def compact(self, revision: int) -> None:
        self._log.compact(revision)

    async def upkeep(self, now: float) -> None:
        if due := self._log.expired(now):
            await self.commit(due)
        self._log.compact(self._retention.compact_to(now, self._log))

    async def close(self) -> None:
        self._closed = True
        self._log.fanout.end(StoreUnavailable("the store is closed"))
