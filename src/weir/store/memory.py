"""State in memory: what every backend reads, and a backend of its own for tests, simulations and `what-if`.

The reference for the other backends: only weir.store.log and weir.store.memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from weir.store.backend import (
    Deliver,
    Ended,
    KeyValue,
    Page,
    Result,
    StoreUnavailable,
    Watch,
    Write,
    check_writes,
)
from weir.store.compact import DEFAULT_KEEP_SECONDS, Retention
from weir.store.log import Log


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
