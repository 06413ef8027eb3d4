"""A server in process under virtual time, with short words for what tests do to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from tests.golden.cluster import TOKEN, Cluster
from weir.apiserver.transport.http import Request
from weir.client.api import Client
from weir.client.local import LocalTransport
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind

PODS, NODES, EVENTS = by_kind("v1", "Pod"), by_kind("v1", "Node"), by_kind("v1", "Event")


class Living:
    """A cluster whose time moves when told to."""

    def __init__(self, gates=ALL_FEATURES):
        self.server = Cluster(gates)
        self.clock = self.server.clock
        self.client = self.client_of("test")
        self.tasks = []

    def client_of(self, agent):
        headers = {"authorization": f"Bearer {TOKEN}"}
        transport = LocalTransport(self.server.server.handle, Request, headers)
        return Client(transport, clock=self.clock, user_agent=f"{agent}/1")

    def start(self, part):
        self.tasks.append(asyncio.ensure_future(part.run()))

    async def advance(self, seconds=1.0):
        await self.clock.advance(seconds)
        for task in self.tasks:
            if task.done():
                task.result()

    async def node(self, name, *taints, labels=None, ready=True, **status):
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        ]
        await self.client.create(
            NODES,
            {
                "metadata": {"name": name, "labels": labels or {}},
                "status": {
                    "capacity": amounts,
                    "allocatable": amounts,
                    "conditions": conditions if ready else [],
                    **status,
                },
            },
        )
        await self.taint(name, *taints)

    async def taint(self, name, *taints):
        await self.client.patch(NODES, name, {"spec": {"taints": list(taints)}})
        await self.clock.settle()

    async def pod(self, name, node="", **spec):
        containers = [{"name": "c", "image": "i"}]
        document = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": containers, **spec},
        }
        if node:
            document["spec"]["nodeName"] = node
        made = await self.client.create(PODS, document)
        await self.clock.settle()  # everybody hears of it before the next thing happens
        return made

    async def find(self, kind, name, namespace="default"):
        return await self.client.find(kind, name, namespace if kind.namespaced else "")

    async def all(self, kind, namespace="default"):
        return (await self.client.list(kind, namespace if kind.namespaced else "")).documents()

    async def events(self, reason=""):
        return [e for e in await self.all(EVENTS, "default") if not reason or e["reason"] == reason]


@asynccontextmanager
async def living(gates=ALL_FEATURES):
    cluster = Living(gates)
    await cluster.server.start()
    try:
        yield cluster
    finally:
        for task in cluster.tasks:
            task.cancel()
        await asyncio.gather(*cluster.tasks, return_exceptions=True)
