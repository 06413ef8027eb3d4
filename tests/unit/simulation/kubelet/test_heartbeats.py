"""When nodes report is a function of time; who looks sees them up to date."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.objects.kinds import LEASES, NODES
from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.heartbeats import Rhythm
from weir.simulation.kubelet.node_classes import FAILED

times = st.floats(0, 100_000)


@given(times, times, st.sampled_from([10.0, 300.0]), times)
def test_the_next_time_is_the_first_after_the_last(first, phase, period, now):
    rhythm = Rhythm(first, phase, period)
    after = rhythm.next(max(now, first))
    assert rhythm.last(after) == pytest.approx(after) and rhythm.last(max(now, first)) < after


@given(times, times, st.sampled_from([10.0, 300.0]), times)
def test_no_time_is_further_away_than_a_period(first, phase, period, now):
    rhythm = Rhythm(first, phase, period)
    assert rhythm.next(max(now, first)) - max(now, first) <= period + 1e-3


@pytest.fixture
def cluster():
    with Cluster(nodes=2, controllers=("node-lifecycle",)) as cluster:
        cluster.advance(20)
        yield cluster


def renewed(cluster, node="node-0"):
    return cluster.get("Lease", node, "kube-node-lease")["spec"]["renewTime"]


def test_a_lease_is_at_most_ten_seconds_old_whenever_it_is_read(cluster):
    seen = []
    for _ in range(5):
        cluster.advance(3600)
        seen.append(cluster.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ") >= renewed(cluster) >= str_ago(cluster, 10))
    assert all(seen)


def str_ago(cluster, seconds):
    return cluster.clock.at(cluster.clock.monotonic() - seconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_reading_one_node_writes_nothing_of_the_others(cluster):
    cluster.advance(3600)
    before = cluster._running.store.revision
    cluster.get("Node", "node-0")
    assert cluster._running.store.revision == before + 1


def test_an_hour_of_well_nodes_writes_nothing(cluster):
    cluster.list("Node"), cluster.list("Lease")
    cluster.advance(30)
    before = cluster._running.store.revision
    cluster.advance(3600)
    assert cluster._running.store.revision == before


def test_who_watches_sees_every_renewal(cluster):
    seen = []

    async def watch():
        async with cluster.client.watch(LEASES) as events:
            async for event in events:
                seen.append(event.type)

    task = cluster._loop.create_task(watch())
    cluster.advance(600)
    task.cancel()
    cluster._wait(asyncio.gather(task, return_exceptions=True))
    watched = seen.count("MODIFIED")
    cluster.advance(310)  # until each node has reported once more
    before = cluster._running.store.revision
    cluster.advance(600)
    assert (watched in (119, 120, 121), cluster._running.store.revision - before) == (True, 0)


def test_a_node_that_fails_has_reported_until_then(cluster):
    cluster.advance(1000)
    failed_at = cluster.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    cluster.patch("Node", "node-0", {"metadata": {"annotations": {FAILED: "true"}}})
    ago = str_ago(cluster, 10)
    cluster.advance(1000)
    assert ago <= renewed(cluster) <= failed_at


def test_a_condition_set_by_hand_is_reported_away_at_the_next_time(cluster):
    conditions = cluster.get("Node", "node-0")["status"]["conditions"]
    changed = [{**c, "status": "True"} if c["type"] == "DiskPressure" else c for c in conditions]
    change = {"status": {"conditions": changed}}
    cluster._do(cluster.client.patch(NODES, "node-0", change, subresource="status"))
    cluster.advance(301)
    found = {c["type"]: c["status"] for c in cluster.get("Node", "node-0")["status"]["conditions"]}
    assert found["DiskPressure"] == "False"
