"""A living cluster: many evictions at once, many nodes at rest, an hour of virtual time.

Everything in one process, as in `weir up`, without sockets: memory store, full admission and validation. The baseline
of the evictions is what the server alone takes for the same reads, writes and deletions.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench import Figure
from weir.apiserver.run import Options, Running, build, open_store
from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.clock import RealClock
from weir.cluster import Cluster, ComponentGates, ControlPlane, local_client
from weir.controllers.run import Controllers
from weir.controllers.taint_eviction import TaintEviction
from weir.gates import ALL_FEATURES
from weir.kubelet.classes import CLASSES, node_document
from weir.objects.kinds import by_kind

PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
EVICTED, AT_REST_NODES, AT_REST_PODS, REST_SECONDS = 10_000, 2_000, 20_000, 20.0
TAINT = {"spec": {"taints": [{"key": "flaky", "effect": "NoExecute"}]}}


def run() -> list[Figure]:
    return [*asyncio.run(_evictions()), *asyncio.run(_rest()), _hour()]


async def _server() -> tuple[Running, RealClock]:
    clock = RealClock()
    options = Options(
        Path(), "memory", insecure=True, gates=ALL_FEATURES, authorization_modes=("AlwaysAllow",)
    )
    return await build(options, await open_store(options, clock), clock), clock


def _pod(name: str, node: str) -> dict[str, object]:
    spec = {
        "nodeName": node,
        "containers": [{"name": "c", "image": "i"}],
        "automountServiceAccountToken": False,
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def _evictions() -> list[Figure]:
    running, clock = await _server()
    client = local_client(running, clock, "bench")
    for node in ("a", "b"):
        await client.create(NODES, {"metadata": {"name": node}})
    for number in range(EVICTED):
        await client.create(PODS, _pod(f"p{number}", "a"))
    for number in range(1000):
        await client.create(PODS, _pod(f"alone{number}", "b"))
    began = time.perf_counter()
    for number in range(1000):
        found = await client.get(PODS, f"alone{number}", "default")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = {"metadata": {"uid": found["metadata"]["uid"]}, "status": {"conditions": [condition]}}
        await client.patch(
            PODS, f"alone{number}", patch, "default", patch_type=STRATEGIC_MERGE_PATCH, subresource="status"
        )
        await client.delete(PODS, f"alone{number}", "default")
    alone = (time.perf_counter() - began) * EVICTED / 1000
    controllers = Controllers(local_client(running, clock, "weir"), clock, [TaintEviction(ALL_FEATURES)])
    task = asyncio.ensure_future(controllers.run())
    await asyncio.sleep(3)
    began = time.perf_counter()
    await client.patch(NODES, "a", TAINT)
    counted = controllers.metrics.pod_deletions.child()
    while counted.value < EVICTED:
        await asyncio.sleep(0.02)
    took = time.perf_counter() - began
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await running.stop()
    claim = "at most 30 s"
    return [Figure(f"{EVICTED:,} pods evicted by one taint", took, "s", alone, alone / took, claim)]


async def _rest() -> list[Figure]:
    running, clock = await _server()
    client = local_client(running, clock, "bench")
    for number in range(AT_REST_NODES):
        document = node_document(f"n{number}", CLASSES["default"], (), {}, "2026-01-01T00:00:00Z")
        await client.create(NODES, document)
    for number in range(AT_REST_PODS):
        await client.create(PODS, _pod(f"p{number}", f"n{number % AT_REST_NODES}"))
    plane = ControlPlane(running, clock, ComponentGates())
    plane.start()
    while (await client.list(PODS, field_selector="status.phase=Pending", limit=1)).items:
        await asyncio.sleep(1)
        plane.check()
    await asyncio.sleep(20)  # events are still being written
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(REST_SECONDS)
    share = (time.process_time() - cpu) / (time.perf_counter() - began) * 100
    await plane.stop()
    await running.stop()
    name = f"{AT_REST_NODES:,} nodes and {AT_REST_PODS:,} pods at rest, one core"
    return [Figure(name, share, "%", target="below 60 %")]


def _hour() -> Figure:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 100, "selector": {"matchLabels": labels}, "template": template}
    began = time.perf_counter()
    with Cluster(nodes=20) as cluster:
        cluster.apply(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        )
        for minute in range(60):
            cluster.taint(f"node-{minute % 20}", "flaky=1:NoExecute")
            cluster.advance(60)
            cluster.taint(f"node-{minute % 20}")
    return Figure("an hour of 20 nodes, 100 pods, a taint a minute", time.perf_counter() - began, "s")
