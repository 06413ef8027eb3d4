"""Nodes are watched over: conditions become taints, silence becomes Unknown, zones slow evictions down."""

from __future__ import annotations

import pytest

from tests.integration.living import NODES, PODS, living
from weir.controllers.nodes.lifecycle import NodeLifecycle
from weir.controllers.nodes.pod_gc import PodGc
from weir.controllers.nodes.taint_eviction import TaintEviction
from weir.controllers.runtime.runner import Controllers
from weir.gates import ALL_FEATURES
from weir.objects.kinds import LEASES

pytestmark = pytest.mark.proves("5721-90", "1.35-7")

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
async def cluster():
    async with living() as cluster:
        parts = [part(ALL_FEATURES) for part in (TaintEviction, NodeLifecycle, PodGc)]
        cluster.start(Controllers(cluster.client_of("weir"), cluster.clock, parts))
        await cluster.advance()
        yield cluster


async def condition(cluster, node, type, status):
    now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    found = {"type": type, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
    await cluster.client.patch(
        NODES, node, {"status": {"conditions": [found]}}, patch_type=STRATEGIC, subresource="status"
    )
    await cluster.clock.settle()


async def taints(cluster, node):
    found = (await cluster.find(NODES, node))["spec"].get("taints") or ()
    return {(taint["key"], taint["effect"]) for taint in found}


async def beat(cluster, seconds, *nodes):
    """Let time pass while these nodes report, and only these."""
    for _ in range(int(seconds / 10)):
        for node in nodes:
            await condition(cluster, node, "Ready", "True")
        await cluster.advance(10)


@pytest.mark.parametrize(
    "type, status, key",
    [
        ("Ready", "False", NOT_READY),
        ("Ready", "Unknown", UNREACHABLE),
        ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
        ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
        ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
        ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ],
)
async def test_a_condition_becomes_its_taint_at_once(cluster, type, status, key):
    await cluster.node("n")
    await condition(cluster, "n", type, status)
    await cluster.advance(0.1)
    assert (key, "NoSchedule") in await taints(cluster, "n")


async def test_a_cordoned_node_is_tainted_and_uncordoning_takes_it_back(cluster):
    await cluster.node("n")
    await cluster.client.patch(NODES, "n", {"spec": {"unschedulable": True}})
    await cluster.advance(0.1)
    cordoned = await taints(cluster, "n")
    await cluster.client.patch(NODES, "n", {"spec": {"unschedulable": None}})
    await cluster.advance(0.1)
    assert (cordoned, await taints(cluster, "n")) == (
        {("node.kubernetes.io/unschedulable", "NoSchedule")},
        set(),
    )


async def test_taints_of_others_are_left_alone(cluster):
    await cluster.node("n", {"key": "sla", "value": "5", "effect": "NoSchedule"})
    await condition(cluster, "n", "MemoryPressure", "True")
    await cluster.advance(0.1)
    await condition(cluster, "n", "MemoryPressure", "False")
    await cluster.advance(0.1)
    assert await taints(cluster, "n") == {("sla", "NoSchedule")}


async def test_a_silent_node_becomes_unknown_after_its_grace(cluster):
    await cluster.node("n")
    await cluster.node("other")
    await beat(cluster, 50, "other")
    before = (await cluster.find(NODES, "n"))["status"]["conditions"][0]["status"]
    await beat(cluster, 20, "other")
    ready = next(c for c in (await cluster.find(NODES, "n"))["status"]["conditions"] if c["type"] == "Ready")
    assert (before, ready["status"], ready["reason"], ready["message"]) == (
        "True",
        "Unknown",
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    )


async def test_a_node_that_never_reported_says_so(cluster):
    await cluster.node("n", ready=False)
    await cluster.advance(70)
    found = {c["type"]: c for c in (await cluster.find(NODES, "n"))["status"]["conditions"]}
    assert (set(found), found["Ready"]["reason"], found["Ready"]["message"]) == (
        {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"},
        "NodeStatusNeverUpdated",
        "Kubelet never posted node status.",
    )


async def test_a_lease_keeps_a_node_alive(cluster):
    await cluster.node("n")
    lease = {"metadata": {"name": "n", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "n"}}
    await cluster.client.create(LEASES, lease)
    for _ in range(12):
        now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await cluster.client.patch(LEASES, "n", {"spec": {"renewTime": now}}, "kube-node-lease")
        await cluster.advance(10)
    assert (await cluster.find(NODES, "n"))["status"]["conditions"][0]["status"] == "True"


async def test_a_lost_node_is_told_and_its_pods_are_not_ready(cluster):
    await cluster.node("n")
    await cluster.node("other")
    await cluster.pod("p", "n")
    now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
    }
    await cluster.client.patch(
        PODS, "p", {"status": ready}, "default", patch_type=STRATEGIC, subresource="status"
    )
    await beat(cluster, 70, "other")
    pod = await cluster.find(PODS, "p")
    (found,) = [c["status"] for c in pod["status"]["conditions"] if c["type"] == "Ready"]
    told = {(e["involvedObject"]["kind"], e["message"]) for e in await cluster.events("NodeNotReady")}
    assert (found, told) == (
        "False",
        {("Node", "Node n status is now: NodeNotReady"), ("Pod", "Node is not ready")},
    )


async def test_pods_of_a_lost_node_leave_after_their_five_minutes(cluster):
    await cluster.node("n")
    await cluster.node("other")
    await cluster.pod("p", "n")
    await beat(cluster, 340, "other")
    early = (await cluster.find(PODS, "p"))["metadata"].get("deletionTimestamp")
    await beat(cluster, 40, "other")
    assert (early, bool((await cluster.find(PODS, "p"))["metadata"].get("deletionTimestamp"))) == (None, True)


async def test_a_node_that_comes_back_loses_both_taints(cluster):
    await cluster.node("n")
    await cluster.node("other")
    await beat(cluster, 70, "other")
    lost = await taints(cluster, "n")
    await beat(cluster, 10, "n", "other")
    assert (lost, await taints(cluster, "n")) == (
        {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")},
        set(),
    )


async def test_not_ready_and_unreachable_exclude_each_other(cluster):
    await cluster.node("n")
    await cluster.node("other")
    await beat(cluster, 70, "other")
    await condition(cluster, "n", "Ready", "False")
    await cluster.advance(1)
    assert await taints(cluster, "n") == {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}


async def test_nodes_of_a_zone_are_given_up_one_every_ten_seconds(cluster):
    for number in range(2):
        await cluster.node(f"lost{number}")
    for number in range(3):
        await cluster.node(f"well{number}")
    seen = []
    for _ in range(9):
        await beat(cluster, 10, "well0", "well1", "well2")
        given_up = [(UNREACHABLE, "NoExecute") in await taints(cluster, f"lost{n}") for n in range(2)]
        seen.append(sum(given_up))
    assert (seen[-1], sorted(set(seen))) == (2, [0, 1, 2])


async def test_where_nothing_is_ready_nobody_is_given_up(cluster):
    for number in range(3):
        await cluster.node(f"n{number}")
    await cluster.advance(600)
    found = [await taints(cluster, f"n{number}") for number in range(3)]
    assert found == [{(UNREACHABLE, "NoSchedule")}] * 3


async def test_a_small_zone_that_mostly_fails_is_left_alone(cluster):
    for number in range(5):
        await cluster.node(f"n{number}")
    await beat(cluster, 300, "n0", "n1")
    found = [await taints(cluster, f"n{number}") for number in range(5)]
    assert not any((UNREACHABLE, "NoExecute") in each for each in found)


async def test_pods_of_a_node_that_is_gone_are_removed_after_a_while(cluster):
    await cluster.node("n")
    await cluster.pod("p", "n")
    await cluster.client.delete(NODES, "n")
    await cluster.advance(30)
    early = await cluster.find(PODS, "p")
    await cluster.advance(60)
    assert (early is not None, await cluster.find(PODS, "p")) == (True, None)


async def test_people_are_told_of_nodes_that_come_and_go(cluster):
    await cluster.node("n1")
    await cluster.advance(6)
    await cluster.client.delete(NODES, "n1")
    await cluster.advance(6)
    events = [event for event in await cluster.events() if event["involvedObject"]["kind"] == "Node"]
    assert [(event["reason"], event["message"]) for event in events] == [
        ("RegisteredNode", "Node n1 event: Registered Node n1 in Controller"),
        ("RemovingNode", "Node n1 event: Removing Node n1 from Controller"),
    ]
