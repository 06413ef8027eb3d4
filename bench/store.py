"""The store: durable writes together and alone, on a slow disk, memory per stored byte, lists and fan-out.

The documents are pods of 2.8 KB. `sync_delay` adds five milliseconds to every commit to stand for a disk
with a slow fsync; etcd is measured when it is installed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench import Figure
from weir.store import Store, Write
from weir.store.memory import MemoryStore
from weir.store.sqlite import SqliteStore

_CHANCE = random.Random(1)
_HEAD = b'{"metadata":{"resourceVersion":""},"spec":"'
_STAMP = _HEAD.index(b'""') + 1


def _document() -> bytes:
    return _HEAD + _CHANCE.randbytes(1380).hex().encode() + b'"}'


async def _puts(store: Store, callers: int, each: int) -> tuple[float, float]:
    """Return durable puts per second and CPU microseconds per put."""
    document = _document()

    async def write(caller: int) -> None:
        for n in range(each):
            [result] = await store.commit([Write(f"/pods/{caller}/{n}", document, 0, _STAMP)])
            result.check()

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(write(caller) for caller in range(callers)))
    count = callers * each
    return count / (time.perf_counter() - wall), 1e6 * (time.process_time() - cpu) / count


async def _with_sqlite(
    measure: Callable[[Store], Awaitable[tuple[float, float]]], sync_delay: float = 0.0
) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("WEIR_BENCH_DIR", ".")) as directory:
        store = await SqliteStore.open(Path(directory) / "store.db", sync_delay=sync_delay)
        try:
            return await measure(store)
        finally:
            await store.close()


async def _writes() -> list[Figure]:
    alone, _ = await _with_sqlite(lambda store: _puts(store, 1, 1500))
    some, some_cpu = await _with_sqlite(lambda store: _puts(store, 32, 400))
    many, many_cpu = await _with_sqlite(lambda store: _puts(store, 512, 80))
    slow_alone, _ = await _with_sqlite(lambda store: _puts(store, 1, 100), 0.005)
    slow, _ = await _with_sqlite(lambda store: _puts(store, 32, 100), 0.005)
    memory, memory_cpu = await _puts(MemoryStore(), 32, 1000)
    return [
        Figure("durable puts, 512 callers, against one caller", many, "1/s", alone, many / alone, "25,000/s"),
        Figure("durable puts, 32 callers, against one caller", some, "1/s", alone, some / alone),
        Figure("puts in memory, 32 callers", memory, "1/s", some, memory / some),
        Figure("with 5 ms fsync, 32 callers, against one caller", slow, "1/s", slow_alone, slow / slow_alone),
        Figure(
            "CPU of a durable put, 512 callers, against memory",
            many_cpu,
            "µs",
            memory_cpu,
            memory_cpu / many_cpu,
        ),
        Figure(
            "CPU of a durable put, 32 callers, against memory",
            some_cpu,
            "µs",
            memory_cpu,
            memory_cpu / some_cpu,
        ),
    ]


async def _reads() -> list[Figure]:
    store = MemoryStore()
    await store.commit([Write(f"/pods/ns/{n:05}", _document(), 0, _STAMP) for n in range(5000)])
    page = store.range("/pods/")

    def best(action: Callable[[], object], count: int = 20) -> float:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            action()
            times.append(time.perf_counter() - began)
        return 1e3 * min(times)

    whole = best(lambda: b",".join([item.value for item in store.range("/pods/").items]))
    then = page.revision
    await store.commit([Write(f"/pods/ns/{n % 5000:05}", b"changed") for n in range(20_000)])
    past = best(lambda: store.range("/pods/", revision=then), 5)
    delivered = [0]

    def deliver(events: object) -> None:
        delivered[0] += len(events)  # type: ignore[arg-type]

    watches = [store.watch("/pods/", store.revision, deliver) for _ in range(1000)]
    began = time.perf_counter()
    for n in range(500):
        await store.commit([Write(f"/pods/ns/{n:05}", b"x")])
    fanout = delivered[0] / (time.perf_counter() - began)
    for watch in watches:
        watch.cancel()
    return [
        Figure("list of 5,000 as joined bytes", whole, "ms", target="at most 3 ms"),
        Figure("the same list 20,000 changes later, as it was", past, "ms", whole, whole / past),
        Figure("deliveries to 1,000 watches", fanout, "1/s"),
    ]


def _resident_bytes() -> int:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * resource.getpagesize()


async def _memory() -> list[Figure]:
    gc.collect()
    before = _resident_bytes()
    store = MemoryStore()
    documents = 30_000
    for at in range(0, documents, 1000):
        await store.commit([Write(f"/pods/ns/{n:06}", _document(), 0, _STAMP) for n in range(at, at + 1000)])
    stored = float(sum(len(item.value) + len(item.key) for item in store.range("/").items))
    grown = float(_resident_bytes() - before)
    ratio = grown / stored
    return [Figure("memory, against stored bytes", grown, "bytes", stored, ratio, "less than 2.5 times")]


async def _etcd() -> list[Figure]:
    if not shutil.which("etcd"):
        return []
    from tests.contract.etcd_server import running_etcd

    from weir.store.etcd import EtcdStore

    with running_etcd() as server:
        store = await EtcdStore.open(server.endpoint)
        alone, _ = await _puts(store, 1, 300)
        await store.close()
        store = await EtcdStore.open(server.endpoint, prefix="/many")
        many, _ = await _puts(store, 256, 40)
        await store.close()
    return [Figure("etcd puts, 256 callers, against one caller", many, "1/s", alone, many / alone)]


def run() -> list[Figure]:
    """Measure; takes about fifteen seconds."""
    try:
        import uvloop

        start: Any = uvloop.run
    except ImportError:
        start = asyncio.run
    figures: list[Figure] = start(_memory())  # first, while the process is small
    for part in (_writes, _reads, _etcd):
        figures += start(part())
    return figures
