"""Start the cluster of docs/howto/run-highly-available.md by its own commands, take parts of it away, and judge.

Two writers create pods through both API servers, two watchers follow them. Each process in turn is killed (SIGKILL),
stays away for some seconds and comes back by the same command. Then the ways between API servers and etcd, each through
a link of tests/faults/links.py: one server is cut off from etcd, then from all that is said to it without being told,
then etcd is slow for both. In the end: every acknowledged pod is there, every pod was bound exactly once, no pod was
evicted, and each watcher has seen every acknowledged pod (by going on, or by listing again after a 410). It takes some
minutes; `--seconds` says how long the cluster is observed after each loss, `--only` which losses.

Clocks that are set: tests/integration/test_clock_steps.py.

    python -m tests.faults [--seconds 12] [--only kills|links]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec

from tests.documented import typed
from tests.faults.links import Link, State
from weir.client.cache import Informer
from weir.client.http import connect
from weir.clock import RealClock
from weir.errors import WeirError
from weir.objects.kinds import by_kind

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "run-highly-available.md"
PODS = by_kind("v1", "Pod")
READY_SECONDS = 90.0
AWAY_SECONDS = 3.0
APART_SECONDS = 20.0  # longer than a Lease, so that who cannot reach it loses it
SLOW_SECONDS = 0.15  # of each direction
PACE_SECONDS = 0.6  # of each writer; ten nodes take 1,100 pods


def commands() -> Iterator[str]:
    """Yield the commands that bring the cluster up, in the order of the page."""
    for one in typed(PAGE):
        yield one.command


@dataclass
class Process:
    """One process of the cluster, which comes back by the command that started it."""

    name: str
    words: list[str]
    folder: Path
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self.folder / f"{self.name}.log").open("ab")
        self.running = subprocess.Popen(self.words, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        if self.running is not None:
            self.running.send_signal(signal.SIGKILL)
            self.running.wait()
            self.running = None


@dataclass
class Load:
    """What was asked for and acknowledged, and what watchers saw."""

    acknowledged: set[str] = field(default_factory=set)
    refused: int = 0
    longest: float = 0.0  #: seconds between two acknowledged writes
    bound: dict[str, set[str]] = field(default_factory=dict)  #: pod → nodes it was ever seen on
    deleted: set[str] = field(default_factory=set)
    seen: list[set[str]] = field(default_factory=list)
    bindings: list[tuple[float, str]] = field(default_factory=list)


def pod(name: str) -> dict[str, object]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}]
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": containers}}


async def write(kubeconfigs: list[Path], load: Load, who: str) -> None:
    """Create pods for ever; after a failure go on through the other server."""
    clients = [connect(path) for path in kubeconfigs]
    number, at, last = 0, 0, time.monotonic()
    try:
        while True:
            name = f"{who}-{number}"
            try:
                await asyncio.wait_for(clients[at].create(PODS, pod(name)), 10)
            except (WeirError, OSError, TimeoutError) as error:
                if getattr(error, "reason", "") == "AlreadyExists":
                    load.acknowledged.add(name)  # the answer was lost, not the write
                    number += 1
                load.refused += 1
                at = (at + 1) % len(clients)
                await asyncio.sleep(0.1)
                continue
            now = time.monotonic()
            load.longest, last = max(load.longest, now - last), now
            load.acknowledged.add(name)
            number += 1
            await asyncio.sleep(PACE_SECONDS)
    finally:
        for client in clients:
            await client.close()


@contextlib.asynccontextmanager
async def watched(kubeconfig: Path, load: Load) -> AsyncIterator[None]:
    """Follow the pods through one server meanwhile."""
    client, seen = connect(kubeconfig), set[str]()
    load.seen.append(seen)
    informer = Informer(client, PODS, RealClock(), msgspec.json.decode)

    def changed(old: dict | None, new: dict | None) -> None:
        document = new or old or {}
        name, node = document["metadata"]["name"], document["spec"].get("nodeName", "")
        seen.add(name)
        if new is None or document["metadata"].get("deletionTimestamp"):
            load.deleted.add(name)
        elif node and node not in load.bound.setdefault(name, set()):
            load.bound[name].add(node)
            load.bindings.append((time.monotonic(), name))

    informer.cache.listen(changed)
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


async def until_ready(kubeconfig: Path, what: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            client = connect(kubeconfig)
            try:
                await asyncio.wait_for(client.list(PODS, "default"), 5)
                return
            finally:
                await client.close()
        except (WeirError, OSError, TimeoutError) as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"{what} is not ready: {error}") from None
            await asyncio.sleep(0.2)


async def through_links(words: list[str], links: list[Link]) -> list[str]:
    """Return the command of an API server with a link in place of each way to etcd; they are added to *links*."""
    at = words.index("--store") + 1
    ports = []
    for endpoint in words[at].removeprefix("etcd=").split(","):
        link = Link(int(endpoint.rpartition(":")[2]))
        await link.listen()
        links.append(link)
        ports.append(link.port)
    return [*words[:at], "etcd=" + ",".join(f"127.0.0.1:{port}" for port in ports), *words[at + 1 :]]


@contextlib.asynccontextmanager
async def observed(load: Load, what: str, seconds: float) -> AsyncIterator[None]:
    """Tell how long writes and bindings had to wait during the block and *seconds* after it."""
    load.longest, before, start = 0.0, len(load.bindings), time.monotonic()
    yield
    await asyncio.sleep(seconds)
    times = [start, *(at for at, _ in load.bindings[before:]), time.monotonic()]
    gap = max(b - a for a, b in pairwise(times))
    print(f"{what}: longest wait of a write {load.longest:.1f} s, of a binding {gap:.1f} s", flush=True)


async def kill_each(processes: list[Process], load: Load, seconds: float) -> None:
    for process in processes:
        async with observed(load, f"{process.name} killed", seconds):
            process.kill()
            await asyncio.sleep(AWAY_SECONDS)
            process.start()


async def disturb_links(links: list[list[Link]], load: Load, seconds: float) -> None:
    (first, second), every = links, [link for server in links for link in server]
    for what, which, state, delay in (
        ("the first API server cut off from etcd", first, State.CUT, 0.0),
        # now everybody is at the second one
        ("the second API server cut off from etcd without being told", second, State.SILENT, 0.0),
        ("the first API server cut off from etcd without being told", first, State.SILENT, 0.0),
        (f"etcd answers {2 * SLOW_SECONDS:.1f} s later", every, State.OPEN, SLOW_SECONDS),
    ):
        async with observed(load, what, seconds):
            for link in which:
                link.become(state, delay)
            await asyncio.sleep(APART_SECONDS)
            for link in which:
                link.become(State.OPEN)


async def run(folder: Path, seconds: float, only: str = "") -> int:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "weir").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m weir.cli.main "$@"\n')
    (programs / "weir").chmod(0o755)
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    os.environ["ETCD_UNSUPPORTED_ARCH"] = os.uname().machine.replace("aarch64", "arm64")
    (folder / "ha").mkdir(mode=0o700)
    kubeconfigs = [folder / "ha" / name for name in ("a.kubeconfig", "b.kubeconfig")]
    processes: list[Process] = []
    links: list[list[Link]] = []
    load = Load()
    try:
        for line in commands():
            words = shlex.split(line.removesuffix("&"))
            if not line.endswith("&"):
                ran = partial(subprocess.run, cwd=folder, capture_output=True, text=True, timeout=120)
                done = await asyncio.to_thread(ran, words)  # the links go on meanwhile
                if done.returncode:
                    raise SystemExit(f"{line}\n{done.stdout}{done.stderr}")
                continue
            kind = words[0] if words[0] == "etcd" else words[1]
            if kind == "apiserver":
                links.append([])
                words = await through_links(words, links[-1])
            process = Process(f"{kind}-{sum(p.name.startswith(kind) for p in processes)}", words, folder)
            process.start()
            processes.append(process)
            if kind == "apiserver":
                await until_ready(
                    kubeconfigs[sum(p.name.startswith(kind) for p in processes) - 1], process.name
                )
        print(f"{len(processes)} processes run", flush=True)
        async with watched(kubeconfigs[0], load), watched(kubeconfigs[1], load):
            writers = [
                asyncio.create_task(write(kubeconfigs, load, "from-a")),
                asyncio.create_task(write(kubeconfigs[::-1], load, "from-b")),
            ]
            await asyncio.sleep(seconds)
            if only != "links":
                await kill_each(processes, load, seconds)
            if only != "kills":
                await disturb_links(links, load, seconds)
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
            return await judge(kubeconfigs, load)
    finally:
        for process in reversed(processes):
            process.kill()
        for link in (link for server in links for link in server):
            await link.close()


async def judge(kubeconfigs: list[Path], load: Load) -> int:
    """Wait until all is quiet, and return the exit code: 0 when nothing was lost."""
    deadline = time.monotonic() + READY_SECONDS
    client = connect(kubeconfigs[0])
    try:
        while True:
            with contextlib.suppress(WeirError, OSError):
                listed = (await client.list(PODS, "default")).documents()
                there = {each["metadata"]["name"]: each["spec"].get("nodeName") for each in listed}
                lost = sorted(load.acknowledged - there.keys())
                unbound = sorted(name for name, node in there.items() if not node)
                unseen = [sorted(load.acknowledged - seen) for seen in load.seen]
                if not (lost or unbound or any(unseen)) or time.monotonic() > deadline:
                    break
            await asyncio.sleep(0.5)
    finally:
        await client.close()
    twice = sorted(name for name, nodes in load.bound.items() if len(nodes) > 1)
    print(f"{len(load.acknowledged)} writes acknowledged, {load.refused} refused meanwhile and tried again")
    wrong = {
        "lost": lost,
        "not bound": unbound,
        "bound twice": twice,
        "evicted": sorted(load.deleted),
        "not seen by the first watcher": unseen[0],
        "not seen by the second watcher": unseen[1],
    }
    for what, names in wrong.items():
        print(f"{what}: {len(names)} {' '.join(names[:5])}")
    return 1 if any(wrong.values()) else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", choices=["kills", "links"], default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-faults-") as folder:
        sys.exit(asyncio.run(run(Path(folder), arguments.seconds, arguments.only)))


if __name__ == "__main__":
    main()
