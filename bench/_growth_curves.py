"""The cost of one item at size n: one function a series, each called in a process of its own (bench.growth).

Seconds are those of the processor, so that other programs of the machine hardly count. Memory is what the process
holds afterwards beyond what it held before. Sizes are chosen so that the largest takes about a minute.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from bench import claims, day, devices, scheduler, what_if
from bench._diverse import write_dump
from weir.gates import ALL_FEATURES
from weir.observe.interpreter import calm_collector
from weir.store import Write
from weir.store.memory import MemoryStore
from weir.store.sqlite import SqliteStore

PAGE = 500
_DOCUMENT = b'{"metadata":{"resourceVersion":""},"spec":"%b"}' % (b"x" * 1_000)
_STAMP = _DOCUMENT.index(b'""') + 1
_PODS_A_NODE = 30


@dataclass(frozen=True, slots=True)
class Measured:
    """What so many items took together, and how much memory was left with them."""

    items: int
    seconds: float
    held: float = 0.0  #: bytes in all
    holds: int = 0  #: of how many things


def tell(measured: Measured) -> None:
    """Print what was measured, for the process that asked."""
    print(json.dumps(asdict(measured)))


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _timed(action: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        action()
    return time.process_time() - began


# ── the scheduler's engine ───────────────────────────────────────────────────────────────────────


def placement(nodes: int, extra: str = "", pods: int = 2_000) -> Measured:
    """Place pods of 50 classes, each known already, on so many nodes."""
    count = min(pods, nodes * 8)
    return Measured(count, count / scheduler.placements(nodes, count, extra=extra))


def spread(nodes: int) -> Measured:
    return placement(nodes, "spread", 300)


def pods(count: int) -> Measured:
    """Place so many pods, about 30 on each node, and keep them all."""
    before = _resident()
    rng = random.Random(5)
    engine = scheduler.Engine(ALL_FEATURES)
    for number in range(max(count // 30, 10)):
        engine.table.put_node(scheduler.node(rng, number))
    kinds = [scheduler.pod(rng, number) for number in range(50)]
    calm_collector()
    began = time.process_time()
    for number in range(count):
        each = msgspec.structs.replace(kinds[number % 50])
        answer = engine.place(each)
        if isinstance(answer, scheduler.Placement):
            engine.assume(str(number), each, answer.node)
    return Measured(count, time.process_time() - began, _resident() - before, count)


def claimed(nodes: int) -> Measured:
    """Place pods with a claim of one shape, their devices promised; every node has four."""
    count = min(2_000, nodes * 2)
    return Measured(count, count / claims.decided(nodes, count, 4))


# ── device taints ────────────────────────────────────────────────────────────────────────────────


def published(slices: int) -> Measured:
    """Publish so many slices of eight devices to a tracker with 100 rules."""
    found, made = devices.slices(slices), devices.rules()
    before = _resident()
    tracker, seconds = devices.build(found, made)
    measured = Measured(slices * devices.DEVICES, seconds, _resident() - before, slices * devices.DEVICES)
    del tracker
    return measured


def rule_of_one_pool(slices: int) -> Measured:
    """Add and remove a rule about one pool among so many."""
    tracker, _ = devices.build(devices.slices(slices), devices.rules())
    rule = devices.rule(200, {"pool": "node-7"})

    def flip() -> None:
        tracker.put_rule(rule)
        tracker.remove_rule(rule.name)

    return Measured(200, _timed(flip, 200))


# ── a living cluster ─────────────────────────────────────────────────────────────────────────────


def taint_flip(nodes: int) -> Measured:
    """Taint so many nodes NoExecute at once, five pods on each, until all pods are gone: a whole control plane."""
    from weir.simulation.cluster import Cluster

    with Cluster(seed=1) as cluster:
        cluster.add_nodes(nodes, name="n", node_class="on-demand")
        for number in range(nodes * 5):
            spec = {"nodeName": f"n-{number % nodes}", "containers": [{"name": "c", "image": "i"}]}
            cluster.apply(
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p-{number}"}, "spec": spec}
            )
        cluster.advance(60)
        began = time.process_time()
        for number in range(nodes):
            cluster.taint(f"n-{number}", "hot=1:NoExecute")
        cluster.advance(120)
        seconds = time.process_time() - began
        left = cluster.list("Pod")
        assert not left, f"{len(left)} pods are left"
    return Measured(nodes * 5, seconds)


def hours(nodes: int) -> Measured:
    """Let a day pass for so many nodes and half as many pods again; one node an hour falls silent for a while."""
    lived = day.live_through(nodes, 24, churn=False)
    return Measured(nodes * 24, lived.cpu_seconds - lived.set_up_cpu_seconds)


def replaced(nodes: int) -> Measured:
    """Let taints change every five minutes: the pods of one spot node in a hundred are evicted and placed again."""
    lived = day.live_through(nodes, max(4 * 500 // nodes, 1))
    return Measured(lived.evictions, lived.cpu_seconds - lived.set_up_cpu_seconds)


def whatif(nodes: int) -> Measured:
    """Ask what a taint on one node would do to a dump of so many nodes with about 30 pods on each."""
    count = nodes * _PODS_A_NODE
    with tempfile.TemporaryDirectory() as folder:
        write_dump(dump := Path(folder) / "dump.json", nodes, count)
        cost = what_if.ask(dump, "node-000003")
    return Measured(count, cost.seconds, cost.mebibytes * 2**20, count)


def leaving(pods: int) -> Measured:
    """Ask what a taint on a pool would do that about so many pods have to leave, a fifth of those there are."""
    nodes = max(5, pods * 3 // 20)
    with tempfile.TemporaryDirectory() as folder:
        write_dump(dump := Path(folder) / "dump.json", nodes, nodes * _PODS_A_NODE)
        cost = what_if.ask(dump, *what_if.pool(nodes, 1.0))
    return Measured(cost.leaving, cost.seconds)


# ── the store ────────────────────────────────────────────────────────────────────────────────────


def _key(number: int) -> str:
    return f"/pods/ns-{number % 100}/pod-{number:07}"


async def _filled(count: int) -> MemoryStore:
    store = MemoryStore()
    for at in range(0, count, 4_000):
        writes = [Write(_key(n), _DOCUMENT, 0, _STAMP) for n in range(at, min(at + 4_000, count))]
        await store.commit(writes)
    return store


def pages(objects: int, *, changed: bool = False) -> Measured:
    """Read lists of so many objects by pages, as much as 200 pages of them."""

    async def read() -> Measured:
        store = await _filled(objects)
        then = store.revision
        if changed:  # while the list is being read
            await store.commit([Write(_key(n), _DOCUMENT) for n in range(100)])
        read = 0
        began = time.process_time()
        while read < 200 * PAGE:
            start = ""
            while read < 200 * PAGE:
                page = store.range("/pods/", start=start, limit=PAGE, revision=then if changed else 0)
                read += len(page.items)
                b",".join([item.value for item in page.items])  # as it is served
                start = page.next_start
                if not page.remaining:
                    break
        return Measured(read, time.process_time() - began)

    return asyncio.run(read())


def changed_pages(objects: int) -> Measured:
    return pages(objects, changed=True)


def resume(changes: int, *, missed: int = 0) -> Measured:
    """Watch again from *missed* changes ago (0: all of them) in a store that remembers so many."""

    async def watch() -> Measured:
        store = await _filled(changes)
        seen: list[object] = []
        wanted = missed or changes
        times = max(100_000 // wanted, 1)

        def again() -> None:
            seen.clear()
            store.watch("/pods/", store.revision - wanted, seen.extend).cancel()

        seconds = _timed(again, times)
        assert len(seen) == wanted
        return Measured(times * wanted, seconds)

    return asyncio.run(watch())


def late_resume(changes: int) -> Measured:
    return resume(changes, missed=100)


def startup(objects: int) -> Measured:
    """Open the SQLite store of so many objects of a kilobyte, as a restarted API server does."""

    async def start() -> Measured:
        with tempfile.TemporaryDirectory(dir=os.environ.get("WEIR_BENCH_DIR")) as folder:
            path = Path(folder) / "store.db"
            # Written by a process of its own, whose memory is not counted.
            write = f"from bench._growth_curves import write_store; write_store({str(path)!r}, {objects})"
            subprocess.run([sys.executable, "-c", write], check=True)
            before, began = _resident(), time.process_time()
            store = await SqliteStore.open(path)
            seconds = time.process_time() - began
            held = _resident() - before
            assert store.count("/pods/") == objects
            await store.close()
            return Measured(objects, seconds, held, objects)

    return asyncio.run(start())


def write_store(path: str, objects: int) -> None:
    """Write a SQLite store of so many objects."""

    async def write() -> None:
        store = await SqliteStore.open(path)
        for at in range(0, objects, 4_000):
            numbers = range(at, min(at + 4_000, objects))
            await store.commit([Write(_key(n), _DOCUMENT, 0, _STAMP) for n in numbers])
        await store.close()

    asyncio.run(write())
