"""Pods placed per second end to end: created over HTTP, scheduled by a process of its own, seen bound by a watch.

Durable SQLite, RBAC, full admission and validation; over plain HTTP, and once over TLS. Half of the nodes carry
`sla=<0..999>:NoSchedule`; pods tolerate `sla Gt 100..899` and `gpu Exists`. A real Kubernetes 1.37 with raised client
limits places 180 pods/s at 1,000 nodes and 155 at 5,000 on two cores: these recorded rates are the baseline.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvloop

from bench import Figure
from bench.apiserver import Connection
from weir.client.api import Client
from weir.client.http import connect
from weir.objects.kinds import by_kind
from weir.objects.manifest import read_values

PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
RECORDED = {1_000: 180.0, 5_000: 155.0}
CONNECTIONS = 32
ROUNDS = 2  # the best rate counts, since a machine is seldom quiet for long, and the highest memory


def node(number: int) -> dict[str, object]:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    taints = [{"key": "sla", "value": str(number // 2 % 1000), "effect": "NoSchedule"}] if number % 2 else []
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": f"node-{number}", "labels": {"kubernetes.io/hostname": f"node-{number}"}},
        "spec": {"taints": taints},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(number: int, rng: random.Random) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": f"pod-{number}", "namespace": "default"},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "app:v1",
                        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    }
                ],
                "tolerations": [
                    {
                        "key": "sla",
                        "operator": "Gt",
                        "value": str(rng.randrange(100, 900)),
                        "effect": "NoSchedule",
                    },
                    {"key": "gpu", "operator": "Exists"},
                ],
            },
        }
    )


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Metadata(msgspec.Struct):
    name: str = ""


class _Head(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


async def _each(count: int, do: object) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await do(number)  # type: ignore[operator]

    await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))


def _prepared(kubeconfig: Path, bodies: list[bytes]) -> Callable[[], Awaitable[object]] | None:
    """Return what sends *bodies* over the connections, one request after the other on each; None for TLS."""
    (config,) = read_values(kubeconfig.read_bytes())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    if server.scheme != "http":
        return None
    host, port, token = server.hostname, server.port, config["users"][0]["user"]["token"]
    head = (
        f"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: {host}\r\nUser-Agent: bench/1\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: "
    )
    requests = [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]

    async def send() -> None:
        loop = asyncio.get_running_loop()
        sent = []
        for number in range(CONNECTIONS):
            done: asyncio.Future[int] = loop.create_future()
            connection = partial(Connection, requests[number::CONNECTIONS], done)
            await loop.create_connection(connection, host, port)
            sent.append(done)
        await asyncio.gather(*sent)

    return send


async def _load(kubeconfig: Path, nodes: int, pods: int) -> float:
    client: Client = connect(kubeconfig)
    watcher: Client = connect(kubeconfig)
    rng = random.Random(1)
    try:

        async def make_node(number: int) -> None:
            document = node(number)
            await client.create(NODES, document)
            # admission taints new nodes as not ready; nobody else is here to take that away
            await client.patch(NODES, f"node-{number}", {"spec": {"taints": document["spec"]["taints"]}})  # type: ignore[index]

        await _each(nodes, make_node)
        await asyncio.sleep(3)  # let the scheduler take the nodes in
        bodies = [pod(number, rng) for number in range(pods)]
        head = msgspec.json.Decoder(_Head).decode
        listed = await watcher.list(PODS, "default")
        bound: set[str] = set()
        done = asyncio.Event()

        async def watch() -> None:
            async with watcher.watch(PODS, "default", resource_version=listed.resource_version) as events:
                async for event in events:
                    if event.type == "MODIFIED":
                        seen = head(event.object)
                        if seen.spec.node_name:
                            bound.add(seen.metadata.name)
                            if len(bound) == pods:
                                done.set()
                                return

        watching = asyncio.ensure_future(watch())
        # Over plain HTTP prepared bytes are sent: the generator shares two cores with what is measured.
        sending = _prepared(kubeconfig, bodies)
        started = time.perf_counter()
        if sending is None:
            await _each(pods, lambda number: client.create(PODS, bodies[number], "default"))
        else:
            await sending()
        async with asyncio.timeout(300):
            await done.wait()
        elapsed = time.perf_counter() - started
        watching.cancel()
        return pods / elapsed
    finally:
        await client.close()
        await watcher.close()


def _peak_mib(process: subprocess.Popen[bytes]) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def placed(nodes: int, pods: int, *options: str) -> tuple[float, float]:
    """Return pods bound per second and the peak memory of server and scheduler together, in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        log = (data / "log").open("w+")
        weir = [sys.executable, "-m", "weir.cli.main"]
        gates = "--feature-gates=TaintTolerationComparisonOperators=true"
        quiet = {"stdout": log, "stderr": log, "env": {**os.environ}}
        server = subprocess.Popen(
            [*weir, "apiserver", "--data-dir", folder, "--secure-port", "0", gates, *options], **quiet
        )  # type: ignore[call-overload]
        try:
            while "is ready at" not in (data / "log").read_text():
                assert server.poll() is None, (data / "log").read_text()
                time.sleep(0.05)
            kubeconfig = data / "kubeconfig"
            scheduler = subprocess.Popen(
                [*weir, "scheduler", "--kubeconfig", str(kubeconfig), "--no-leader-elect", gates],
                **quiet,  # type: ignore[call-overload]
            )
            try:
                rate = uvloop.run(_load(kubeconfig, nodes, pods))
                assert scheduler.poll() is None, (data / "log").read_text()
                return rate, _peak_mib(server) + _peak_mib(scheduler)
            finally:
                scheduler.terminate()
                scheduler.wait(20)
        finally:
            server.terminate()
            server.wait(20)


def run() -> list[Figure]:
    figures = []
    plain = ("--insecure-http",)
    for nodes, pods, options, target in (
        (1_000, 2_000, plain, "at least 1,800"),
        (5_000, 5_000, plain, "at least 1,500"),
        (1_000, 2_000, (), ""),
    ):
        runs = [placed(nodes, pods, *options) for _ in range(ROUNDS)]
        rate, memory = max(rate for rate, _ in runs), max(memory for _, memory in runs)
        over = "HTTP" if options else "TLS"
        claim = f"{pods:,} pods on {nodes:,} nodes over {over}, created to bound"
        figures += [
            Figure(claim, rate, "pods/s", RECORDED[nodes], rate / RECORDED[nodes], target),
            Figure("peak memory of the control plane", memory, "MiB", 400, 400 / memory, "at most 400"),
        ]
    return figures
