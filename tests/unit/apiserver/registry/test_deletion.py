"""Deleting a large object does not hold up the loop: what takes long is done beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.registry import codec

PODS = "/api/v1/namespaces/golden/pods"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def cluster():
    found = Cluster(GATES_ON)
    await found.start()
    return found


async def deleted(cluster: Any, size: int, node: str = "n1") -> tuple[dict[str, Any], list[Any]]:
    """Return the answer to the deletion of a pod on a node, and what was done beside the loop for it."""
    env = [{"name": f"E{number}", "value": "x" * 50} for number in range(size)]
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}
    pod["spec"]["nodeName"] = node
    created = await cluster.call("POST", PODS, "", JSON, json.dumps(pod).encode())
    assert created["code"] == 201, created["body"]
    beside: list[Any] = []
    off_loop = cluster.server.verbs.off_loop
    run = off_loop.run

    async def noted(turn: Any, work: Any, *arguments: Any, **named: Any) -> Any:
        beside.append(work)
        return await run(turn, work, *arguments, **named)

    off_loop.run = noted
    return await cluster.call("DELETE", f"{PODS}/a", "", JSON, b""), beside


@pytest.mark.parametrize("size", [3, 1000])
async def test_a_large_pod_is_read_and_written_beside_the_loop(cluster, size):
    answer, beside = await deleted(cluster, size)
    body = answer["body"]
    assert (answer["code"], body["kind"], body["metadata"]["deletionGracePeriodSeconds"]) == (200, "Pod", 30)
    assert len(body["spec"]["containers"][0]["env"]) == size
    stored = await cluster.call("GET", f"{PODS}/a", "", {}, b"")
    assert stored["body"] == body
    expected = [] if size == 3 else [codec.decode, codec.decode, codec.encode]
    assert [work for work in beside if work in (codec.decode, codec.encode)] == expected


async def test_a_second_deletion_changes_nothing_and_the_last_removes_it(cluster):
    first, _ = await deleted(cluster, 3)
    again = await cluster.call("DELETE", f"{PODS}/a", "", JSON, b"")
    assert again["body"] == first["body"]
    tried = await cluster.call("DELETE", f"{PODS}/a", "dryRun=All&gracePeriodSeconds=5", JSON, b"")
    assert tried["body"]["metadata"]["deletionGracePeriodSeconds"] == 5
    last = await cluster.call("DELETE", f"{PODS}/a", "gracePeriodSeconds=0", JSON, b"")
    assert last["code"] == 200 and last["body"]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await cluster.call("GET", f"{PODS}/a", "", {}, b""))["code"] == 404
