"""In-memory backend, for tests, simulations and `what-if`.

The reference for the other backends: only weir.store.log and weir.store.read_cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from weir.store.backend import KeyValue, Result, StoreUnavailable, Write, check_writes
from weir.store.compact import DEFAULT_KEEP_SECONDS, Retention
from weir.store.log import Log
from weir.store.read_cache import ReadCache


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
