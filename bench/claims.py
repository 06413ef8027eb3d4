"""Pods with claims placed per second end to end: 2,000 pods with a claim template on 200 nodes, created to bound.

Over plain HTTP: an API server with durable SQLite, RBAC, full admission and validation; the ResourceClaim controller
in a process of its own, which makes a claim for every pod; the scheduler in a third, which allocates a device of 16 on
each node. A pod costs its creation, its claim, its status, three writes of the scheduler about the claim and the
pod, the binding and an event. A real Kubernetes 1.37 places 45 such pods a second on two cores: the baseline.
The second figure is the scheduler's own part: claims of one shape against 200 and 2,000 nodes, no server.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench import Figure
from bench.scheduler_http import _each, _Head, _prepared
from weir.client.api import Client
from weir.client.http import connect
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.objects.kinds import by_kind
from weir.objects.resource import DeviceClass, ResourceClaim, ResourceSlice
from weir.scheduler.claims import Claims
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.plugins import device_plugins

GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
RECORDED = 45.0
NODES, PODS, DEVICES = 200, 2_000, 16
ROUNDS = 3  # the best counts, since a machine is seldom quiet for long
Document = dict[str, Any]

_POD, _NODE = by_kind("v1", "Pod"), by_kind("v1", "Node")
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
                    "tolerations": [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}],
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


def slice_of(number: int) -> Document:
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
                for index in range(DEVICES)
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


async def _load(kubeconfig: Path, nodes: int, pods: int) -> float:
    client: Client = connect(kubeconfig)
    watcher: Client = connect(kubeconfig)
    try:
        await client.create(_CLASS, device_class())
        metadata = {"name": "one-gpu", "namespace": "default"}
        template = {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": metadata}
        await client.create(_TEMPLATE, {**template, "spec": {"spec": SPEC}}, "default")

        async def make_node(number: int) -> None:
            await client.create(_NODE, node(number))
            # admission taints new nodes as not ready; nobody else is here to take that away
            await client.patch(_NODE, f"node-{number}", {"spec": {"taints": []}})
            await client.create(_SLICE, slice_of(number))

        await _each(nodes, make_node)
        await asyncio.sleep(3)  # let scheduler and controller take everything in
        bodies = [
            msgspec.json.encode(pod(number, resourceClaimTemplateName="one-gpu")) for number in range(pods)
        ]
        head = msgspec.json.Decoder(_Head).decode
        listed = await watcher.list(_POD, "default")
        bound: set[str] = set()
        done = asyncio.Event()

        async def watch() -> None:
            async with watcher.watch(_POD, "default", resource_version=listed.resource_version) as events:
                async for event in events:
                    seen = head(event.object)
                    if seen.spec.node_name:
                        bound.add(seen.metadata.name)
                        if len(bound) == pods:
                            done.set()
                            return

        watching = asyncio.ensure_future(watch())
        # Prepared bytes: the generator shares two cores with what is measured.
        sending = _prepared(kubeconfig, bodies)
        assert sending is not None, "over plain HTTP"
        started = time.perf_counter()
        await sending()
        async with asyncio.timeout(300):
            await done.wait()
        elapsed = time.perf_counter() - started
        watching.cancel()
        return pods / elapsed
    finally:
        await client.close()
        await watcher.close()


@contextmanager
def _started(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    log = (folder / f"{command[0]}.log").open("w+")
    process = subprocess.Popen(
        [sys.executable, "-m", "weir.cli.main", *command], stdout=log, stderr=log, env={**os.environ}
    )
    try:
        yield process
        assert process.poll() is None, (folder / f"{command[0]}.log").read_text()
    finally:
        process.terminate()
        process.wait(20)


def placed(nodes: int = NODES, pods: int = PODS) -> tuple[float, dict[str, float]]:
    """Return pods bound per second, and the seconds of processor time each process took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gates = "--feature-gates=TaintTolerationComparisonOperators=true"
        server = ("apiserver", "--data-dir", name, "--secure-port", "0", "--insecure-http", gates)
        with _started(folder, *server) as apiserver:
            while "is ready at" not in (folder / "apiserver.log").read_text():
                assert apiserver.poll() is None, (folder / "apiserver.log").read_text()
                time.sleep(0.05)
            reach = ("--kubeconfig", str(folder / "kubeconfig"), "--no-leader-elect", gates)
            with (
                _started(folder, "scheduler", *reach) as scheduler,
                _started(folder, "controller-manager", "--controllers=resourceclaim", *reach) as controller,
            ):
                rate = uvloop.run(_load(folder / "kubeconfig", nodes, pods))
                used = {
                    "API server": _seconds(apiserver),
                    "scheduler": _seconds(scheduler),
                    "controller": _seconds(controller),
                }
        return rate, used


def _seconds(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def decided(nodes: int, pods: int) -> float:
    """Return pods decided per second of processor time, devices promised, without a server."""
    claims = Claims(ALL_FEATURES, lambda: datetime.now(UTC))
    engine = Engine(ALL_FEATURES, devices=device_plugins(claims, ALL_FEATURES, lambda: ""))
    claims.put_class(read(DeviceClass, device_class()))
    for number in range(nodes):
        engine.table.put_node(read(Node, node(number)))
        claims.put_slice(read(ResourceSlice, slice_of(number)))
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
    began = time.process_time()
    for each in wanted:
        answer = engine.place(each)
        assert isinstance(answer, Placement), answer
        engine.assume(each.key, each, answer.node)
        engine.reserve(each, answer.node)
    return pods / (time.process_time() - began)


def run() -> list[Figure]:
    rate, used = max((placed() for _ in range(ROUNDS)), key=lambda found: found[0])
    claim = f"{PODS:,} pods with claim templates on {NODES} nodes over HTTP, created to bound"
    figures = [Figure(claim, rate, "pods/s", RECORDED, rate / RECORDED, "at least 400")]
    figures += [Figure(f"processor time of the {name}", spent, "s") for name, spent in used.items()]
    small, large = decided(200, 2_000), decided(2_000, 2_000)
    figures.append(Figure("decided and promised by the engine alone, 200 nodes", small, "pods/s"))
    figures.append(Figure("the same on 2,000 nodes", large, "pods/s", small, large / small))
    return figures
