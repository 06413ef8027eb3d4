"""A living cluster: many evictions at once and at their deadlines, many nodes at rest, a day of virtual time.

Everything in one process, as in `weir up`, without sockets: memory store, full admission and validation. The baseline
of each figure is the value asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from bench import Figure, day
from weir.apiserver.build import Running, build
from weir.apiserver.options import Options, open_store
from weir.clock import RealClock
from weir.controllers.nodes.taint_eviction import TaintEviction
from weir.controllers.runtime.runner import Controllers
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind
from weir.simulation.component_gates import ComponentGates
from weir.simulation.control_plane import ControlPlane, local_client
from weir.simulation.kubelet.node_classes import CLASSES, node_document

PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
EVICTED, DEADLINES, AT_REST_NODES, AT_REST_PODS, REST_SECONDS = 10_000, 27, 2_000, 20_000, 20.0
TAINT = {"spec": {"taints": [{"key": "flaky", "effect": "NoExecute"}]}}


def run() -> list[Figure]:
    return [*asyncio.run(_evictions()), *asyncio.run(_deadlines()), *asyncio.run(_rest()), *day.run()]


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


class _Lateness(list[float]):
    """Stands in for a histogram and keeps every value."""

    def child(self, *_: str) -> _Lateness:
        return self

    def observe(self, seconds: float) -> None:
        self.append(seconds)


async def _taint_once(tolerations: Callable[[int], list[dict[str, object]]]) -> tuple[float, list[float]]:
    """Taint a node that holds all pods; return how long it took until each was deleted, and how late each was."""
    running, clock = await _server()
    client = local_client(running, clock, "bench")
    await client.create(NODES, {"metadata": {"name": "a"}})
    for number in range(EVICTED):
        pod = _pod(f"p{number}", "a")
        pod["spec"] = {**pod["spec"], "tolerations": tolerations(number)}  # type: ignore[dict-item]
        await client.create(PODS, pod)
    controllers = Controllers(local_client(running, clock, "weir"), clock, [TaintEviction(ALL_FEATURES)])
    late = _Lateness()
    controllers.metrics.pod_deletion_duration = late  # type: ignore[assignment]
    task = asyncio.ensure_future(controllers.run())
    await asyncio.sleep(3)
    began = time.perf_counter()
    await client.patch(NODES, "a", TAINT)
    while len(late) < EVICTED:
        await asyncio.sleep(0.02)
    took = time.perf_counter() - began
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await running.stop()
    return took, late


async def _evictions() -> list[Figure]:
    took, _ = await _taint_once(lambda _: [])
    return [Figure(f"{EVICTED:,} pods evicted by one taint", took, "s", 30.0, 30.0 / took, "at most 30 s")]


async def _deadlines() -> list[Figure]:
    def tolerations(number: int) -> list[dict[str, object]]:
        seconds = 1 + number % DEADLINES
        entry = {"key": "flaky", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        return [entry]

    took, late = await _taint_once(tolerations)
    ordered = sorted(late)
    name = f"{EVICTED:,} pods with deadlines over {DEADLINES} s, all deleted"
    return [
        Figure(name, took, "s", 30.0, 30.0 / took, "at most 30 s"),
        Figure("  lateness, median", ordered[len(ordered) // 2], "s"),
        Figure("  lateness, 99 of 100", ordered[len(ordered) * 99 // 100], "s"),
        Figure("  lateness, worst", ordered[-1], "s", 1.0, 1.0 / ordered[-1], "at most 1 s"),
    ]


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
    return [Figure(name, share, "%", 60.0, 60.0 / share, "below 60 %")]
