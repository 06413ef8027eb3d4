"""Too many rules, a driver that never stops writing: pods without claims do not wait for devices."""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path

from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.registry import codec
from weir.clock import RealClock
from weir.objects.kinds import by_kind
from weir.simulation.component_gates import ComponentGates
from weir.simulation.control_plane import ControlPlane, local_client
from weir.simulation.kubelet.node_classes import CLASSES, node_document
from weir.store import Write

RULES = by_kind("resource.k8s.io/v1", "DeviceTaintRule")
SLICES = by_kind("resource.k8s.io/v1", "ResourceSlice")
CLAIMS = by_kind("resource.k8s.io/v1", "ResourceClaim")
NODES, PODS = by_kind("v1", "Node"), by_kind("v1", "Pod")
MANY = 10_000
PODS_MEANWHILE = 20
#: Far above what it takes; a scheduler that takes in all rules or slices before each pod is far above this.
PATIENCE_SECONDS = 60.0
PATIENCE_WRITES = 50


def rule(number: int) -> dict:
    failing = {
        "selectors": [{"cel": {"expression": f"device.attributes['gpu.example.com'].nope == {number % 20}"}}]
    }
    elsewhere = {"driver": "gpu.example.com", "pool": f"elsewhere-{number}", "device": "gpu-0"}
    return {
        "apiVersion": RULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": f"rule-{number:05}",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
        },
        "spec": {
            "deviceSelector": failing if number % 10 == 0 else elsewhere,
            "taint": {"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"},
        },
        "status": {},
    }


def pod(name: str, **spec: object) -> dict:
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": containers, **spec}}


class Bound:
    """Which pods are bound, as a watch sees it."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.news = asyncio.Event()

    def __call__(self, old: dict | None, new: dict | None) -> None:
        if new is not None and new["spec"].get("nodeName"):
            self.names.add(new["metadata"]["name"])
            self.news.set()

    async def all(self, names: list[str]) -> None:
        async def wait() -> None:
            while not set(names) <= self.names:
                self.news.clear()
                await self.news.wait()

        await asyncio.wait_for(wait(), PATIENCE_SECONDS)


async def rewrite(client, written: list[str]) -> None:
    """Change a taint of every slice in turn, one write after the other, until cancelled."""
    slices = list((await client.list(SLICES)).documents())
    while True:
        found = slices[len(written) % len(slices)]
        name = found["metadata"]["name"]
        taints = [{"key": "temperature", "value": str(60 + len(written) % 30), "effect": "None"}]
        devices = [{**device, "taints": taints} for device in found["spec"]["devices"]]
        await client.patch(SLICES, name, {"spec": {"devices": devices}})
        written.append(name)
        await asyncio.sleep(0)  # the others' turn


async def test_pods_without_claims_do_not_wait_for_ten_thousand_rules_or_a_restless_driver():
    clock = RealClock()
    options = Options(data_dir=Path(), store="memory", insecure=True, authorization_modes=("AlwaysAllow",))
    store = await open_store(options, clock)
    running = await build(options, store, clock)
    await store.commit(
        [
            Write(RULES.key("", f"rule-{n:05}"), codec.encode(rule(n), RULES), None, codec.STAMP)
            for n in range(MANY)
        ]
    )
    client = local_client(running, clock, "test")
    plane = ControlPlane(running, clock, ComponentGates())
    bound = Bound()
    from weir.client.cache import Informer, decode_document

    pods = Informer(client, PODS, clock, decode_document)
    pods.cache.listen(bound)
    following = asyncio.ensure_future(pods.run())
    noise = asyncio.ensure_future(asyncio.sleep(0))
    plane.start()
    try:
        for number in range(4):
            kind = CLASSES["gpu"].with_devices(4)
            now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            # Their own driver puts right whatever the noise does: twice as many writes.
            await client.create(NODES, node_document(f"n{number}", kind, (), {}, now))
        await client.create(PODS, pod("first"))
        await bound.all(["first"])
        noise = asyncio.ensure_future(rewrite(client, written := []))
        waits = []  # in writes of the driver
        for number in range(PODS_MEANWHILE):
            before = len(written)
            await client.create(PODS, pod(f"plain-{number}"))
            await bound.all([f"plain-{number}"])
            waits.append(len(written) - before)
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
        claim = {
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        }
        await client.create(CLAIMS, claim, "default")
        await client.create(PODS, pod("claiming", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]))
        await bound.all(["claiming"])
        plane.check()
        assert not noise.done() and len(written) >= PODS_MEANWHILE
        assert statistics.median(waits) < PATIENCE_WRITES, sorted(waits)
    finally:
        for task in (following, noise):
            task.cancel()
        await asyncio.gather(following, noise, return_exceptions=True)
        await plane.stop()
        await running.stop()
