"""Pods placed per second end to end: created over HTTP, scheduled by a process of its own, seen bound by a watch.

Durable SQLite, RBAC, full admission and validation. Half of the nodes carry `sla=<0..999>:NoSchedule`; pods tolerate
`sla Gt 100..899` and `gpu Exists`. What a real Kubernetes does with the same work is measured by `bench kubernetes`.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import msgspec
import uvloop

from bench import Figure
from bench._load import GATES, api_server, bound_per_second, each, memory_mib, started
from weir.client.api import Client
from weir.client.http import connect
from weir.objects.kinds import by_kind

NODES = by_kind("v1", "Node")
WARM = 32
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


async def _make_nodes(kubeconfig: Path, count: int) -> None:
    client: Client = connect(kubeconfig)

    async def make(number: int) -> None:
        document = node(number)
        await client.create(NODES, document)
        # admission taints new nodes as not ready; nobody else is here to take that away
        await client.patch(NODES, f"node-{number}", {"spec": document["spec"]})

    try:
        await each(count, make)
    finally:
        await client.close()


async def _load(kubeconfig: Path, nodes: int, pods: int) -> float:
    await _make_nodes(kubeconfig, nodes)
    rng = random.Random(1)
    bodies = [pod(number, rng) for number in range(pods + WARM)]
    await bound_per_second(kubeconfig, bodies[pods:])  # the scheduler has taken the nodes in
    return await bound_per_second(kubeconfig, bodies[:pods])


def placed(nodes: int, pods: int, *options: str) -> tuple[float, float]:
    """Return pods bound per second and the peak memory of server and scheduler together, in MiB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reach = ("--kubeconfig", str(folder / "kubeconfig"), "--no-leader-elect", GATES)
        with (
            api_server(folder, *options) as server,
            started(folder, "scheduler", *reach, "--kube-api-qps", "0") as scheduler,
        ):
            rate = uvloop.run(_load(folder / "kubeconfig", nodes, pods))
            return rate, sum(memory_mib(process.pid, "VmHWM") for process in (server, scheduler))


def run() -> list[Figure]:
    figures = []
    plain = ("--insecure-http",)
    for nodes, pods, options, target in (
        (1_000, 2_000, plain, "at least 1,800"),
        (5_000, 5_000, plain, "at least 1,500"),
        (1_000, 2_000, (), ""),
        (5_000, 5_000, (), ""),
    ):
        runs = [placed(nodes, pods, *options) for _ in range(ROUNDS)]
        rate, memory = max(rate for rate, _ in runs), max(memory for _, memory in runs)
        over = "HTTP" if options else "TLS"
        claim = f"{pods:,} pods on {nodes:,} nodes over {over}, created to bound"
        figures += [
            Figure(claim, rate, "pods/s", target=target),
            Figure("peak memory of the control plane", memory, "MiB", target="at most 400"),
        ]
    return figures
