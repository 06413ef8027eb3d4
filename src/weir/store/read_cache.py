"""Reads and watches from the state in memory; base class of every backend."""

from __future__ import annotations

from weir.store.backend import Deliver, Ended, KeyValue, Page, Watch
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
