"""`weir explain` and `weir what-if` ask a live cluster when no dump is given."""

from __future__ import annotations

import asyncio
import json

import pytest

from weir.cli.main import run
from weir.client.http import connect
from weir.exit_codes import FINE
from weir.objects.kinds import by_kind


@pytest.fixture
def shop(server):
    """A node that two pods run on, one of them owned, and a node beside it."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}

    async def make():
        client = connect(server.kubeconfig)
        await client.create(by_kind("v1", "Namespace"), {"metadata": {"name": "shop"}})
        for name in ("live-1", "live-2"):
            node = {"metadata": {"name": name}, "status": {"allocatable": amounts, "capacity": amounts}}
            await client.create(by_kind("v1", "Node"), node)
            # A new node is tainted until it is ready, and nobody makes it so here.
            await client.patch(by_kind("v1", "Node"), name, {"spec": {"taints": None}})
        spec = {"nodeName": "live-1", "containers": [{"name": "c", "image": "i"}]}
        metadata = {"name": "web-1", "namespace": "shop", "ownerReferences": [owner]}
        await client.create(by_kind("v1", "Pod"), {"metadata": metadata, "spec": spec})
        await client.close()

    async def clear():
        client = connect(server.kubeconfig)
        for name in ("live-1", "live-2"):
            await client.delete(by_kind("v1", "Node"), name)
        await client.delete(by_kind("v1", "Pod"), "web-1", "shop", grace_period_seconds=0)
        await client.close()

    asyncio.run(make())
    yield str(server.kubeconfig)
    asyncio.run(clear())


def test_a_pod_of_the_cluster_and_a_change_to_it(shop, capsys):
    explained = run(["explain", "web-1", "-n", "shop", "--kubeconfig", shop])
    line = capsys.readouterr().out.splitlines()[0]
    foreseen = run(["what-if", "taint", "live-1", "sla=1:NoExecute", "--kubeconfig", shop, "-o", "json"])
    (leaving,) = json.loads(capsys.readouterr().out)["leaving"]
    assert (explained, line, foreseen, leaving["goesTo"]) == (
        FINE,
        "Pod shop/web-1 runs on live-1 and may stay",
        FINE,
        "live-2",
    )
