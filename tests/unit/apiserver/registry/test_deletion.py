"""A deletion reads its object once, waits for the disk once, and does beside the loop what takes long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.registry import codec
from weir.store import Conflict, Result, Write

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
        if turn is not None:
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
    expected = [] if size == 3 else [codec.decode, codec.encode]
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


async def test_a_pod_that_may_go_at_once_is_marked_and_removed_in_one_commit(cluster):
    store = cluster.server.verbs.store
    commit, commits, seen = store.commit, [], []
    store.watch("/registry/pods/", store.revision, seen.extend)

    async def counted(writes: Any) -> Any:
        commits.append(writes)
        return await commit(writes)

    store.commit = counted
    answer, _ = await deleted(cluster, 3, node="")  # nothing runs yet
    assert [len(writes) for writes in commits] == [1, 2]  # created, then marked and removed
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    marked = json.loads(seen[1].value)["metadata"]
    assert answer["body"]["metadata"] == marked and marked["deletionGracePeriodSeconds"] == 0
    assert marked["resourceVersion"] == str(seen[1].revision)
    assert json.loads(seen[2].value)["metadata"] == {**marked, "resourceVersion": str(seen[2].revision)}


@pytest.mark.parametrize("lost", [0, 1], ids=["before it was marked", "after it was marked"])
async def test_a_pod_that_another_write_changed_meanwhile_is_removed_all_the_same(cluster, lost):
    """The second case is that of a store whose commits others can come between (etcd)."""
    store = cluster.server.verbs.store
    commit, commits = store.commit, []

    async def raced(writes: Any) -> Any:
        commits.append(writes)
        if len(writes) < 2 or len(commits) > 2:
            return await commit(writes)
        results = await commit(writes[:lost])
        now = store.get(writes[0].key)
        await commit([Write(now.key, now.value.replace(b'"image":"i"', b'"image":"j"'))])
        error = Conflict(now.key, now.mod_revision, store.revision)
        return [*results, *[Result(None, error, now)] * (2 - lost)]

    store.commit = raced
    answer, _ = await deleted(cluster, 3, node="")
    assert (answer["code"], answer["body"]["spec"]["containers"][0]["image"]) == (200, "j")
    assert [len(writes) for writes in commits] == [1, 2, 1 if lost else 2]
    assert (await cluster.call("GET", f"{PODS}/a", "", {}, b""))["code"] == 404
