"""The API server against a real kube-apiserver with etcd: the same requests, the same client, the same run.

Needs the real binaries (`make kubernetes`, or KUBERNETES_BIN) and etcd, and says so where there are none. 32 workers
create small pods over TLS; the client takes part of the two cores in both cases, so these are ratios and not the
highest rate either server reaches.
The real server is spared more than weir: its ServiceAccount admission is off and its etcd writes to memory.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec
from tests.e2e.server import running_server
from tests.kubernetes.real_server import real_server

from bench import Figure
from bench._kubernetes import is_built
from weir.client.http import connect
from weir.objects.kinds import by_kind

PODS, ACCOUNTS = by_kind("v1", "Pod"), by_kind("v1", "ServiceAccount")
COUNT, WORKERS = 4_000, 32


def pod(number: int) -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": f"pod-{number}"},
            "spec": {
                "schedulerName": "none",
                "containers": [{"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "100m"}}}],
                "tolerations": [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}],
            },
        }
    )


async def _rate(kubeconfig: Path) -> tuple[float, float]:
    """Return creates per second, and the milliseconds a list of all of them takes."""
    client = connect(kubeconfig)
    try:
        if await client.find(ACCOUNTS, "default", "default") is None:
            await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        numbers = iter(range(COUNT))

        async def worker() -> None:
            for number in numbers:
                await client.create(PODS, pod(number), "default")

        started = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(WORKERS)))
        rate = COUNT / (time.perf_counter() - started)
        times = []
        for _ in range(5):
            started = time.perf_counter()
            await client.list(PODS, "default")
            times.append((time.perf_counter() - started) * 1000)
        return rate, min(times)
    finally:
        await client.close()


def _measure(kubeconfig: Path) -> tuple[float, float]:
    import uvloop

    return uvloop.run(_rate(kubeconfig))


def run() -> list[Figure]:
    if not is_built():
        return []
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        with real_server(Path(one)) as kubeconfig:
            real_rate, real_list = _measure(kubeconfig)
        gates = "AllAlpha=false,TaintTolerationComparisonOperators=true"
        with running_server(Path(other), "--feature-gates", gates) as server:
            rate, listed = _measure(server.kubeconfig)
    return [
        Figure(
            "durable pod creates, TLS, against kube-apiserver + etcd",
            rate,
            "1/s",
            real_rate,
            rate / real_rate,
        ),
        Figure(f"list of {COUNT:,} pods as a client sees it", listed, "ms", real_list, real_list / listed),
    ]
