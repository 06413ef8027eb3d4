"""How exactly a rate of device evictions is kept: 2,000 pods leave because of one rule with `evictionsPerSecond: 100`.

A whole control plane under virtual time: memory store, in-process clients, the controller as it runs anywhere. What is
measured is what a watch of pods sees: when each deletion arrived. Ten go at once, then one every hundredth of a
second, so the last should go after 19.9 s. The baseline of the processor time is the virtual time it stands for.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from bench import Figure
from weir.client.api import Client
from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster

PODS, RATE, PER_NODE = 2_000, 100, 8
VERSION, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
POD, CLAIM = by_kind("v1", "Pod"), by_kind(VERSION, "ResourceClaim")
SLICE, RULE = by_kind(VERSION, "ResourceSlice"), by_kind(VERSION, "DeviceTaintRule")


async def _fill(client: Client) -> None:
    """Publish devices and put a pod with an allocated, reserved claim on each."""
    for node in range(PODS // PER_NODE):
        pool = {"name": f"node-{node}", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{unit}"} for unit in range(PER_NODE)]
        spec = {"driver": DRIVER, "nodeName": f"node-{node}", "pool": pool, "devices": devices}
        document = {
            "apiVersion": VERSION,
            "kind": "ResourceSlice",
            "metadata": {"name": f"s-{node}"},
            "spec": spec,
        }
        await client.create(SLICE, document)
    for number in range(PODS):
        node, unit = divmod(number, PER_NODE)
        name = f"p-{number:04}"
        request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
        await client.create(
            CLAIM,
            {
                "apiVersion": VERSION,
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"devices": {"requests": [request]}},
            },
        )
        made = await client.create(
            POD,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "nodeName": f"node-{node}",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "c", "image": "i"}],
                    "resourceClaims": [{"name": "g", "resourceClaimName": name}],
                },
            },
        )
        result = {"request": "r", "driver": DRIVER, "pool": f"node-{node}", "device": f"gpu-{unit}"}
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}],
        }
        await client.patch(CLAIM, name, {"status": status}, "default", subresource="status")


async def _watch(cluster: Cluster, seen: list[float], since: str) -> None:
    async with cluster.client.watch(POD, "default", resource_version=since) as events:
        async for event in events:
            if event.type == "DELETED":
                seen.append(cluster.clock.monotonic())


def deletions() -> tuple[list[float], float]:
    """Return when each pod was deleted, in virtual seconds after the rule, and the processor time of it all."""
    with Cluster(controllers=["device-taint-eviction"]) as cluster:
        cluster._do(_fill(cluster.client))
        seen: list[float] = []
        listed = cluster._wait(cluster.client.list(POD, "default", limit=1))

        async def begin() -> asyncio.Task[None]:
            return asyncio.ensure_future(_watch(cluster, seen, listed.resource_version))

        watching = cluster._do(begin())
        taint = {"key": "bad", "effect": "NoExecute", "evictionsPerSecond": RATE}
        spec = {"deviceSelector": {"driver": DRIVER}, "taint": taint}
        began, spent = cluster.clock.monotonic(), time.process_time()
        cluster.create(
            {"apiVersion": VERSION, "kind": "DeviceTaintRule", "metadata": {"name": "bad"}, "spec": spec}
        )
        cluster.advance(60)
        spent = time.process_time() - spent
        watching.cancel()
        with suppress(asyncio.CancelledError):
            cluster._wait(asyncio.wait_for(watching, 1))
        return [at - began for at in seen], spent


def run() -> list[Figure]:
    times, spent = deletions()
    assert len(times) == PODS, f"{len(times)} of {PODS} pods left"
    last = max(times)
    seconds = [sum(start < at <= start + 1 for at in times) for start in range(1, int(last) - 1)]
    worst = max(abs(count - RATE) / RATE * 100 for count in seconds)
    claim = f"{PODS:,} pods at evictionsPerSecond {RATE}, the last one left"
    return [
        Figure(claim, last, "s of virtual time", (PODS - 10) / RATE, None, "19 to 21"),
        Figure("largest deviation of any whole second from the rate", worst, "%", None, None, "at most 2"),
        Figure("processor time of server and controllers for it", spent, "s", last, last / spent, ""),
    ]
