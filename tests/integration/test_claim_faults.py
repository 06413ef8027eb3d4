"""Whatever goes wrong with the writes of claims, no device is given away twice and every pod gets its own."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from tests.integration.faults import REASONS, STATUS, FaultyTransport
from tests.integration.test_scheduler_faults import HEADERS, Scene, a_server
from weir.apiserver.transport.http import Request
from weir.client.api import Reply, Unreachable
from weir.client.cache import Informer, decode_document
from weir.client.local import LocalTransport
from weir.objects.kinds import by_kind

GROUP = "resource.k8s.io/v1"
CLASSES, SLICES = by_kind(GROUP, "DeviceClass"), by_kind(GROUP, "ResourceSlice")
CLAIMS, PODS = by_kind(GROUP, "ResourceClaim"), by_kind("v1", "Pod")
DRIVER = "gpu.example.com"


class ClaimWeather(FaultyTransport):
    """A way to the server on which writes of claims fail as they are told, one after the other."""

    def __init__(self, inner, rng):
        super().__init__(inner, rng)
        self.faults = []

    async def request(self, method, target, headers=None, body=b""):
        fault = (
            self.faults.pop() if method == "PATCH" and "/resourceclaims/" in target and self.faults else None
        )
        if isinstance(fault, int):
            return Reply(fault, (STATUS % (REASONS[fault], "made up", fault)).encode(), {})
        if fault == "timeout":
            raise Unreachable("timed out")
        reply = await super().request(method, target, headers, body)
        if fault == "lost":
            raise Unreachable("connection reset")
        return reply


class ClaimScene(Scene):
    def transport(self):
        return ClaimWeather(LocalTransport(self.running.server.handle, Request, HEADERS), self.rng)

    async def devices(self, nodes, each):
        await self.client.create(CLASSES, {"metadata": {"name": "gpu"}})
        for number in range(nodes):
            name = f"n{number}"
            spec = {
                "driver": DRIVER,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{n}"} for n in range(each)],
            }
            await self.client.create(SLICES, {"metadata": {"name": f"{name}-gpus"}, "spec": spec})

    async def claiming(self, count):
        for number in range(count):
            metadata = {"name": f"p{number}", "namespace": "default"}
            spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
            await self.client.create(CLAIMS, {"metadata": metadata, "spec": spec}, "default")
            entry = {"name": "g", "resourceClaimName": f"p{number}"}
            pod = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [entry]}
            await self.client.create(PODS, {"metadata": metadata, "spec": pod}, "default")

    async def follow(self):
        """Follow the pods, so that the test waits for what happens and not for time to pass."""
        self._seen, self._moved = Informer(self.client, PODS, self.clock, decode_document), asyncio.Event()
        self._seen.cache.listen(lambda old, new: self._moved.set())
        self._tasks.append(asyncio.ensure_future(self._seen.run()))
        await self._seen.cache.wait_synced()

    async def until(self, happened, seconds=60.0):
        """Return the pods as soon as they are as *happened* says."""
        async with asyncio.timeout(seconds):
            while not happened(pods := list(self._seen.cache)):
                self._moved.clear()
                await self._moved.wait()
        return pods

    async def held(self):
        """Return every allocated device with its claim, and the claims by name."""
        claims = {each["metadata"]["name"]: each for each in (await self.client.list(CLAIMS)).documents()}
        found = [
            ((result["pool"], result["device"]), name)
            for name, each in claims.items()
            for result in each["status"].get("allocation", {}).get("devices", {}).get("results", ())
        ]
        return found, claims


@pytest.mark.parametrize("seed", range(1, 4))
async def test_no_device_is_given_away_twice_whatever_happens_to_the_writes(tmp_path, seed):
    async with a_server(tmp_path) as running:
        scene = ClaimScene(running, tmp_path, seed)
        try:
            await scene.nodes(4)
            await scene.devices(4, 5)
            transport, _ = scene.schedule()
            rng = random.Random(seed)
            transport.faults = [rng.choice([409, 500, 503, "lost", "timeout", None, None]) for _ in range(60)]
            transport.bind_faults = [rng.choice([409, 500, "lost", "timeout", None]) for _ in range(15)]
            await scene.follow()
            await scene.claiming(24)
            for number in (3, 8, 14):
                await scene.until(lambda pods, number=number: len(placed(pods)) >= number)
                transport.cut_watches()
            pods = await scene.until(lambda pods: len(placed(pods)) >= 20 and all(map(says_why, pods)))
            held, claims = await scene.held()
            assert max(Counter(device for device, _ in held).values()) == 1
            bound = {each["metadata"]["name"]: each for each in pods if each["spec"].get("nodeName")}
            assert len(bound) == 20
            for name, each in bound.items():
                (pool,) = [device[0] for device, claim in held if claim == name]
                reserved = [consumer["uid"] for consumer in claims[name]["status"]["reservedFor"]]
                assert (pool, reserved) == (each["spec"]["nodeName"], [each["metadata"]["uid"]])
        finally:
            await scene.stop()


def placed(pods):
    return [each for each in pods if each["spec"].get("nodeName")]


def says_why(pod):
    """Return whether a pod that is not placed says why."""
    conditions = pod["status"].get("conditions") or ()
    return bool(pod["spec"].get("nodeName")) or any(c.get("reason") == "Unschedulable" for c in conditions)
