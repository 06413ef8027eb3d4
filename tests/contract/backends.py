"""The store backends under test, each opened the same way, again and again on the same data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weir.store.backend import Store
from weir.store.memory import MemoryStore


class ManualTime:
    """Seconds since the epoch, moved by the test."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Backend:
    """Opens stores on one set of data and closes them at the end."""

    name = "memory"
    exact_ttl = True  # expiry follows the injected clock

    def __init__(self) -> None:
        self.time = ManualTime()
        self._opened: list[Store] = []

    async def open(self, *, keep_seconds: float = 300.0) -> Store:
        store = await self._open(self.time, keep_seconds)
        self._opened.append(store)
        return store

    async def _open(self, time: Callable[[], float], keep_seconds: float) -> Store:
        return MemoryStore(time=time, keep_seconds=keep_seconds)

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


class SqliteBackend(Backend):
    name = "sqlite"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    async def _open(self, time: Callable[[], float], keep_seconds: float) -> Store:
        from weir.store.sqlite import SqliteStore

        return await SqliteStore.open(self.path, time=time, keep_seconds=keep_seconds)


class EtcdBackend(Backend):
    name = "etcd"
    exact_ttl = False

    def __init__(self, endpoint: str, prefix: str) -> None:
        super().__init__()
        self.endpoint, self.prefix = endpoint, prefix

    async def _open(self, time: Callable[[], float], keep_seconds: float) -> Store:
        from weir.store.etcd import EtcdStore

        return await EtcdStore.open(self.endpoint, prefix=self.prefix, time=time, keep_seconds=keep_seconds)
