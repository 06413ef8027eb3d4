"""One way to evict a pod: marked, then deleted, and never another pod of its name."""

from __future__ import annotations

import pytest

from tests.integration.living import PODS, living
from weir.client.events import Recorder
from weir.controllers.runtime.pod_eviction import Evicted, PodEviction, evict_pod


def eviction(uid, **more):
    return PodEviction("default", "p", uid, "DeletionByTest", "because of a test", **more)


async def evicted(cluster, wanted):
    return await evict_pod(
        cluster.client, cluster.clock, Recorder(cluster.client, cluster.clock, "t"), wanted
    )


@pytest.fixture
async def cluster():
    async with living() as cluster:
        await cluster.node("n")
        await cluster.pod("p", "n")
        yield cluster


async def test_the_pod_is_marked_and_deleted(cluster):
    uid = (await cluster.find(PODS, "p"))["metadata"]["uid"]
    answer = await evicted(cluster, eviction(uid))
    found = await cluster.find(PODS, "p")
    marked = [c for c in found["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (answer, marked[0]["reason"], "deletionTimestamp" in found["metadata"]) == (
        Evicted.DELETED,
        "DeletionByTest",
        True,
    )


async def test_another_pod_of_the_same_name_is_left_alone(cluster):
    before = await cluster.find(PODS, "p")
    assert (await evicted(cluster, eviction("another")), await cluster.find(PODS, "p")) == (
        Evicted.GONE,
        before,
    )


async def test_a_pod_that_leaves_already_may_be_left_alone(cluster):
    uid = (await cluster.find(PODS, "p"))["metadata"]["uid"]
    await cluster.client.delete(PODS, "p", "default")
    before = await cluster.find(PODS, "p")
    assert (await evicted(cluster, eviction(uid, unless_deleting=True)), await cluster.find(PODS, "p")) == (
        Evicted.LEAVING,
        before,
    )
