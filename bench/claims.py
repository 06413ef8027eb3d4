"""Pods with claims placed per second end to end: 2,000 pods with a claim template on 200 nodes, created to bound.

An API server with durable SQLite, RBAC, full admission and validation; the ResourceClaim controller in a process of
its own, which makes a claim for every pod; the scheduler in a third, which allocates a device of 16 on each node. A
pod costs its creation, its claim, its status, three writes of the scheduler about the claim and the pod, the binding
and an event. What a real Kubernetes does with the same work is measured by `bench kubernetes`.
The last figures are the scheduler's own part: claims of one shape against 200 and 2,000 nodes, no server.
"""

from __future__ import annotations

import gc
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench import Figure
from bench._load import GATES, api_server, bound_per_second, cpu_seconds, each, started
from weir.client.api import Client
from weir.client.http import connect
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.objects.kinds import by_kind
from weir.objects.resource import DeviceClass, ResourceClaim, ResourceSlice
from weir.observe.interpreter import calm_collector
from weir.scheduler.claims import Claims
from weir.scheduler.cycle import Engine, Placement

GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
NODES, PODS, DEVICES, WARM = 200, 2_000, 16, 32
ROUNDS = 3  # the best counts, since a machine is seldom quiet for long
Document = dict[str, Any]

_NODE = by_kind("v1", "Node")
_CLASS, _SLICE = by_kind(GROUP, "DeviceClass"), by_kind(GROUP, "ResourceSlice")
_TEMPLATE = by_kind(GROUP, "ResourceClaimTemplate")
SPEC = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": DRIVER,
                    "selectors": [
                        {"cel": {"expression": f"device.attributes['{DRIVER}'].model == 'LATEST-GPU-MODEL'"}}
                    ],
                    "tolerations": [
                        {"key": "sla", "operator": "Equal", "value": "980", "effect": "NoSchedule"}
                    ],
                },
            }
        ]
    }
}


def device_class() -> Document:
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": spec}


def node(number: int) -> Document:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": f"node-{number}", "labels": {"kubernetes.io/hostname": f"node-{number}"}},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def slice_of(number: int, devices: int = DEVICES) -> Document:
    """Return the devices of one node; every second is tainted by what the claims tolerate."""
    tainted = [{"key": "sla", "value": "980", "effect": "NoSchedule"}]
    return {
        "apiVersion": GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": f"node-{number}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": f"node-{number}",
            "pool": {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {"index": {"int": index}, "model": {"string": "LATEST-GPU-MODEL"}},
                    "capacity": {"memory": {"value": "80Gi"}},
                    **({"taints": tainted} if index % 2 else {}),
                }
                for index in range(devices)
            ],
        },
    }


def pod(number: int, **uses: str) -> Document:
    container = {
        "name": "c",
        "image": "app:v1",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "claims": [{"name": "gpu"}]},
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": [{"name": "gpu", **uses}]},
    }


async def _furnish(kubeconfig: Path, nodes: int) -> None:
    """Make the class, the template, the nodes and their devices."""
    client: Client = connect(kubeconfig)

    async def make_node(number: int) -> None:
        await client.create(_NODE, node(number))
        # admission taints new nodes as not ready; nobody else is here to take that away
        await client.patch(_NODE, f"node-{number}", {"spec": {"taints": []}})
        await client.create(_SLICE, slice_of(number))

    try:
        await client.create(_CLASS, device_class())
        metadata = {"name": "one-gpu", "namespace": "default"}
        template = {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": metadata}
        await client.create(_TEMPLATE, {**template, "spec": {"spec": SPEC}}, "default")
        await each(nodes, make_node)
    finally:
        await client.close()


async def _load(kubeconfig: Path, nodes: int, pods: int) -> float:
    await _furnish(kubeconfig, nodes)
    wanted = (pod(number, resourceClaimTemplateName="one-gpu") for number in range(pods + WARM))
    bodies = [msgspec.json.encode(one) for one in wanted]
    await bound_per_second(kubeconfig, bodies[pods:])  # scheduler and controller have taken everything in
    return await bound_per_second(kubeconfig, bodies[:pods])


def placed(*options: str, nodes: int = NODES, pods: int = PODS) -> tuple[float, dict[str, float]]:
    """Return pods bound per second, and the seconds of processor time each process took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unlimited = ("--kube-api-qps", "0")
        reach = ("--kubeconfig", str(folder / "kubeconfig"), "--no-leader-elect", *unlimited, GATES)
        with (
            api_server(folder, *options) as server,
            started(folder, "scheduler", *reach) as scheduler,
            started(
                folder, "controller-manager", "--controllers=resourceclaim", *reach, "--kube-api-qps", "0"
            ) as controller,
        ):
            rate = uvloop.run(_load(folder / "kubeconfig", nodes, pods))
            processes = {"API server": server, "scheduler": scheduler, "controller": controller}
            return rate, {name: cpu_seconds(process.pid) for name, process in processes.items()}


def decided(nodes: int, pods: int, devices: int = DEVICES) -> float:
    """Return pods decided per second of processor time, devices promised, without a server."""
    claims = Claims(ALL_FEATURES, lambda: datetime.now(UTC))
    engine = Engine(ALL_FEATURES, claims=claims)
    claims.put_class(read(DeviceClass, device_class()))
    for number in range(nodes):
        engine.table.put_node(read(Node, node(number)))
        claims.put_slice(read(ResourceSlice, slice_of(number, devices)))
    wanted = []
    for number in range(pods):
        metadata = {
            "name": f"c-{number}",
            "namespace": "default",
            "uid": f"c-{number}",
            "resourceVersion": "1",
        }
        claims.put_claim(read(ResourceClaim, {"metadata": metadata, "spec": SPEC}))
        document = pod(number, resourceClaimName=f"c-{number}")
        document["metadata"]["uid"] = f"pod-{number}"
        wanted.append(read(Pod, document))
    calm_collector()  # as in the scheduler
    engine.place(wanted[0])  # the first of a shape pays for looking at the cluster
    began = time.process_time()
    for one in wanted:
        answer = engine.place(one)
        assert isinstance(answer, Placement), answer
        engine.assume(one.key, one, answer.node)
        engine.reserve(one, answer.node)
    rate = pods / (time.process_time() - began)
    gc.unfreeze()
    return rate


def run() -> list[Figure]:
    figures = []
    for over, options, target in (("HTTP", ("--insecure-http",), "at least 400"), ("TLS", (), "")):
        rate, used = max((placed(*options) for _ in range(ROUNDS)), key=lambda found: found[0])
        claim = f"{PODS:,} pods with claim templates on {NODES} nodes over {over}, created to bound"
        figures.append(Figure(claim, rate, "pods/s", target=target))
        figures += [Figure(f"processor time of the {name}", spent, "s") for name, spent in used.items()]
    small, large = decided(200, 2_000), decided(2_000, 2_000)
    figures.append(Figure("decided and promised by the engine alone, 200 nodes", small, "pods/s"))
    figures.append(Figure("the same on 2,000 nodes", large, "pods/s", small, large / small))
    return figures
