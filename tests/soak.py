"""`make soak`: a cluster that is busy for long stays as it was.

`weir up`, and churn: pods that come and go, taints that are rewritten with new numbers, config maps and Events. Every
few seconds memory, descriptors, the time of a write and the size of the store are taken. Then nobody does anything
until the history that watches resume from is as short as it gets: the memory then must be within 1.5 times of what new
processes need. In the end all its processes are killed amid writes and started again on the same folder: every
acknowledged write must be there.
The machine may have other work, more at one time than at another: the same write goes to an API server that does
nothing else, and what is judged is how many times longer the busy cluster took in the same seconds.

    python -m tests.soak [--seconds 600]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from tests.e2e.server import running_server
from weir.client.api import Client
from weir.client.http import connect
from weir.errors import WeirError
from weir.objects.kinds import by_kind

PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
CONFIG_MAPS = by_kind("v1", "ConfigMap")
NODE_COUNT = 20
PACE_SECONDS = 0.02
IDLE_PACE_SECONDS = 0.2
KEPT = 20  # the history is kept for this part of the time
AMID_SECONDS = 3.0
SETTLE_SECONDS = 10.0
#: How much more the last third may need than the second one; the first third warms up.
GROWTH = {"memory": 1.15, "descriptors": 1.1, "slowness": 1.5, "file": 1.25}


@dataclass(frozen=True)
class Sample:
    """What the processes needed at one moment."""

    memory: float  # MiB
    descriptors: float
    latency: float  # seconds; a quarter of the writes since the last sample was faster
    idle: float  # the same of the server that has nothing else to do
    file: float  # MiB

    @property
    def slowness(self) -> float:
        """How many times longer a write took than on the idle server."""
        return self.latency / self.idle

    def __str__(self) -> str:
        return (
            f"memory {self.memory:.0f} MiB, {self.descriptors} descriptors, write {1000 * self.latency:.1f} ms "
            f"({1000 * self.idle:.1f} ms idle), file {self.file:.1f} MiB"
        )


def start(folder: Path, seconds: float) -> subprocess.Popen[bytes]:
    log = (folder / "up.out").open("ab")
    words = [
        sys.executable,
        "-m",
        "weir.cli.main",
        "up",
        "--data-dir",
        str(folder / "data"),
        "--secure-port",
        "0",
    ]
    words += ["--nodes", str(NODE_COUNT), "--event-ttl", f"{seconds / 6:.0f}s"]
    # so that what is kept is full when it is looked at
    words += ["--etcd-compaction-interval", f"{seconds / KEPT:.0f}"]
    process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 120
    while (folder / "up.out").read_bytes().count(b"export KUBECONFIG=") <= starts(folder):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((folder / "up.out").read_text())
        time.sleep(0.1)
    (folder / f"started-{starts(folder)}").touch()
    return process


def starts(folder: Path) -> int:
    return len(list(folder.glob("started-*")))


def resident(pid: int) -> float:
    """Return the memory of a process and its children in MiB; pages that they share count once."""
    texts = (Path(f"/proc/{each}/smaps_rollup").read_text() for each in [pid, *children(pid)])
    return sum(int(text.partition("Pss:")[2].split()[0]) for text in texts) / 1024


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


def typical(taken: list[float]) -> float:
    """Return the time that a quarter of the writes stayed below: slow ones tell of the machine."""
    return quantiles(taken, n=4)[0] if len(taken) > 1 else sum(taken, 1e-9)


def sample(pid: int, folder: Path, taken: list[float], idle: list[float]) -> Sample:
    descriptors = sum(len(list(Path(f"/proc/{each}/fd").iterdir())) for each in [pid, *children(pid)])
    size = sum(path.stat().st_size for path in (folder / "data").glob("store.db*"))
    return Sample(resident(pid), descriptors, typical(taken), typical(idle), size / 2**20)


def config_map(name: str, word: str) -> dict:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"word": word}}


class Churn:
    """What clients do, and what they were told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.acknowledged: dict[str, str] = {}  # config map → its word, as last acknowledged
        self.unsure: set[str] = set()
        self.taken: list[float] = []

    async def write(self, who: int, pace: float = PACE_SECONDS) -> None:
        """Rewrite a few config maps for ever, one after another."""
        for number in itertools.count():
            name, word = f"kept-{who}-{number % 25}", str(number)
            self.unsure.add(name)
            began = time.perf_counter()
            change = {"data": {"word": word}}
            if name in self.acknowledged:
                await self.client.patch(CONFIG_MAPS, name, change, "default")
            else:
                await self.client.create(CONFIG_MAPS, config_map(name, word))
            self.taken.append(time.perf_counter() - began)
            self.acknowledged[name] = word
            self.unsure.discard(name)
            await asyncio.sleep(pace)

    async def taint(self) -> None:
        for number in itertools.count():
            taint = {"key": "load", "value": str(number), "effect": "NoSchedule"}
            await self.client.patch(NODES, f"node-{number % NODE_COUNT}", {"spec": {"taints": [taint]}})
            await asyncio.sleep(2 * PACE_SECONDS)

    async def pods(self) -> None:
        tolerates = [{"key": "load", "operator": "Gt", "value": "-1", "effect": "NoSchedule"}]
        for number in itertools.count():
            name = f"pod-{number}"
            spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": tolerates}
            await self.client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
            if number >= 30:
                await self.client.delete(PODS, f"pod-{number - 30}", "default")
            await asyncio.sleep(5 * PACE_SECONDS)


async def run(folder: Path, seconds: float) -> int:
    (folder / "idle").mkdir()
    with running_server(folder / "idle", cold=True) as idle:
        return await soak(folder, seconds, Churn(connect(idle.kubeconfig)))


async def soak(folder: Path, seconds: float, control: Churn) -> int:
    process = start(folder, seconds)
    kubeconfig = folder / "data" / "kubeconfig"
    churn = Churn(connect(kubeconfig))
    samples: list[Sample] = []
    work = (churn.write(1), churn.write(2), churn.taint(), churn.pods(), control.write(1, IDLE_PACE_SECONDS))
    tasks = [asyncio.create_task(each) for each in work]
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            done, _ = await asyncio.wait(
                tasks, timeout=max(1.0, seconds / 60), return_when=asyncio.FIRST_EXCEPTION
            )
            for task in done:
                task.result()
            samples.append(sample(process.pid, folder, churn.taken, control.taken))
            churn.taken.clear()
            control.taken.clear()
            print(samples[-1])
            sys.stdout.flush()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(seconds / KEPT + 2 * SETTLE_SECONDS)
        before = resident(process.pid)
        tasks = [asyncio.create_task(churn.write(who)) for who in range(3, 7)]
        await asyncio.sleep(AMID_SECONDS)
        for each in [process.pid, *children(process.pid)]:
            os.kill(each, signal.SIGKILL)
        process.wait()
        await asyncio.gather(*tasks, return_exceptions=True)
        process = start(folder, seconds)
        wrong = await compare(kubeconfig, churn)
        await asyncio.sleep(SETTLE_SECONDS)  # its components read what there is
        after = resident(process.pid)
    finally:
        for task in tasks:
            task.cancel()
        process.kill()
        process.wait()
    return judge(samples, wrong, before, after, len(churn.acknowledged))


async def compare(kubeconfig: Path, churn: Churn) -> list[str]:
    """Return the config maps that are not as they were acknowledged; those under way may be either."""
    client = connect(kubeconfig)
    try:
        listed = (await client.list(CONFIG_MAPS, "default")).documents()
    except WeirError as error:
        raise SystemExit(f"the restarted server does not answer: {error}") from None
    finally:
        await client.close()
    there = {each["metadata"]["name"]: (each.get("data") or {}).get("word") for each in listed}
    return sorted(
        name
        for name, word in churn.acknowledged.items()
        if name not in churn.unsure and there.get(name) != word
    )


def judge(samples: list[Sample], wrong: list[str], before: float, after: float, acknowledged: int) -> int:
    failed = bool(wrong)
    print(
        f"killed amid writes: {len(wrong)} of {acknowledged} acknowledged objects wrong or missing {wrong[:5]}"
    )
    third = len(samples) // 3
    for name, most in GROWTH.items():
        middle = median(getattr(one, name) for one in samples[third : 2 * third])
        last = median(getattr(one, name) for one in samples[2 * third :])
        grown = last > most * middle
        failed |= grown
        print(f"{name}: {middle:.4g} then {last:.4g}" + (f", more than {most} times" if grown else ", flat"))
    print(f"memory {before:.0f} MiB after churn, {after:.0f} MiB after a restart: {before / after:.2f} times")
    failed |= before > 1.5 * after
    return 1 if failed else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-soak-") as folder:
        sys.exit(asyncio.run(run(Path(folder), arguments.seconds)))


if __name__ == "__main__":
    main()
