"""`weir up` with its components in processes of their own, held against all of them in one process.

Both modes by turns in the same run, the best of each, since a machine is seldom quiet for long: how long until it is
up, what it holds at rest, how many pods a second are placed, and how long a reader waits meanwhile.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from bench import Figure
from bench._load import bound_per_second, started
from weir.client.http import connect
from weir.objects.kinds import by_kind

NODES = by_kind("v1", "Node")
NODE_COUNT, PODS, ROUNDS, REST_SECONDS = 50, 1500, 3, 3.0


def run() -> list[Figure]:
    one: list[tuple[float, ...]] = []
    apart: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        one.append(_measure("--in-one-process"))
        apart.append(_measure())

    def figure(column: int, name: str, unit: str, *, more_is_better: bool = False) -> Figure:
        best = max if more_is_better else min
        value, baseline = best(row[column] for row in apart), best(row[column] for row in one)
        return Figure(name, value, unit, baseline, value / baseline if more_is_better else baseline / value)

    return [
        figure(0, f"weir up with {NODE_COUNT} nodes, until it is up", "s"),
        figure(1, "  memory at rest", "MiB"),
        figure(2, f"  {PODS:,} pods created and placed", "pods/s", more_is_better=True),
        figure(3, "  a reader meanwhile, 99 of 100", "ms"),
        figure(4, "  a reader meanwhile, worst", "ms"),
    ]


def _measure(*options: str) -> tuple[float, ...]:
    folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    words = ("up", "--data-dir", str(folder / "data"), "--secure-port", "0", "--nodes", str(NODE_COUNT))
    began = time.perf_counter()
    try:
        with started(folder, *words, *options) as process:
            said = folder / "up.log"
            while "export KUBECONFIG" not in said.read_text():
                assert process.poll() is None, said.read_text()
                time.sleep(0.01)
            ready = time.perf_counter() - began
            time.sleep(REST_SECONDS)
            memory = sum(map(_proportional_mib, _family(process.pid)))
            rate, waits = uvloop.run(_load(folder / "data" / "kubeconfig"))
            return ready, memory, rate, 1000 * waits[len(waits) * 99 // 100], 1000 * waits[-1]
    finally:
        shutil.rmtree(folder)


async def _load(kubeconfig: Path) -> tuple[float, list[float]]:
    waits: list[float] = []

    async def read() -> None:
        client = connect(kubeconfig, user_agent="reader")
        try:
            while True:
                began = time.perf_counter()
                await client.get(NODES, "node-0")
                waits.append(time.perf_counter() - began)
                await asyncio.sleep(0.01)
        finally:
            await client.close()

    reading = asyncio.ensure_future(read())
    rate = await bound_per_second(kubeconfig, [_pod(number) for number in range(PODS)])
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return rate, sorted(waits)


def _pod(number: int) -> bytes:
    containers = [{"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "1m"}}}]
    metadata = {"name": f"pod-{number}", "namespace": "default"}
    return msgspec.json.encode(
        {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": containers}}
    )


def _family(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _family(int(child))
    return found


def _proportional_mib(pid: int) -> float:
    """Return the memory of a process; of pages that several share, its share."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.partition("Pss:")[2].split()[0]) / 1024
