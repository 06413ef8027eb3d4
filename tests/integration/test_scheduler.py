"""The scheduler at work against the real API server, in one process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.contract.test_client import a_server
from weir.apiserver.transport.http import Request
from weir.client.api import STRATEGIC_MERGE_PATCH, Client
from weir.client.local import LocalTransport
from weir.clock import RealClock
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.run import Scheduler

pytestmark = pytest.mark.proves("5471-85", "5721-90")

PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")


class SetForward(RealClock):
    """A real clock that can be set forward: whoever writes down a time writes a later one."""

    def __init__(self):
        self.by_seconds = 0.0

    def time(self):
        return super().time() + self.by_seconds

    def now(self):
        return super().now() + timedelta(seconds=self.by_seconds)


class Cluster:
    def __init__(self, running, profile):
        self.clock = SetForward()
        self.client = Client(
            LocalTransport(running.server.handle, Request, {"authorization": "Bearer admin-token"})
        )
        config = SchedulerConfig(profiles=(profile,), leader_elect=False)
        self.scheduler = Scheduler(self.client, ALL_FEATURES, self.clock, config=config)
        self.task = asyncio.ensure_future(self.scheduler.run())

    async def node(self, name, taints=(), cpu="4"):
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        await self.client.create(
            NODES, {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}
        )
        await self.taint(name, *taints)

    async def taint(self, name, *taints):
        await self.client.patch(NODES, name, {"spec": {"taints": list(taints)}})

    async def pod(self, name, cpu="100m", **spec):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        await self.client.create(
            PODS,
            {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container], **spec}},
        )

    async def until(self, check, seconds=60.0):
        async with asyncio.timeout(seconds):
            while True:
                assert not self.task.done(), self.task.result()
                found = await check()
                if found:
                    return found
                await asyncio.sleep(0.02)

    async def placed(self, name):
        async def check():
            return (await self.client.get(PODS, name, "default"))["spec"].get("nodeName")

        return await self.until(check)

    async def refused(self, name):
        async def check():
            pod = await self.client.get(PODS, name, "default")
            conditions = pod["status"].get("conditions") or ()
            return next(
                (c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), None
            )

        return await self.until(check)


@asynccontextmanager
async def a_cluster(tmp_path, profile=None):
    async with a_server(tmp_path, gates=ALL_FEATURES) as running:
        cluster = Cluster(running, profile or ProfileArguments())
        try:
            yield cluster
        finally:
            cluster.task.cancel()
            await asyncio.gather(cluster.task, return_exceptions=True)


@pytest.fixture
async def cluster(tmp_path):
    async with a_cluster(tmp_path) as made:
        yield made


def taint(key, value="", effect="NoSchedule"):
    return {"key": key, "value": value, "effect": effect}


async def test_a_pod_goes_to_the_node_whose_taint_it_tolerates(cluster):
    await cluster.node("low", [taint("sla", "800")])
    await cluster.node("high", [taint("sla", "950")])
    await cluster.pod("p", tolerations=[{"key": "sla", "operator": "Gt", "value": "900"}])
    assert await cluster.placed("p") == "high"


async def test_a_refused_pod_says_why_in_the_words_people_know(cluster):
    await cluster.node("n1", [taint("failure-probability", "5")])
    await cluster.node("n2", [taint("disk-iops", "5000")])
    await cluster.pod("p", tolerations=[{"key": "failure-probability", "operator": "Lt", "value": "1"}])
    condition = await cluster.refused("p")
    assert (condition["reason"], condition["message"]) == (
        "Unschedulable",
        "0/2 nodes are available: 1 node(s) had untolerated taint {disk-iops: 5000}, 1 node(s) had untolerated taint "
        "{failure-probability: 5}. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    )


async def test_a_removed_taint_lets_a_waiting_pod_in(cluster):
    await cluster.node("n", [taint("sla", "800")])
    await cluster.pod("p")
    await cluster.refused("p")
    await cluster.taint("n")
    assert await cluster.placed("p") == "n"


async def test_room_is_made_for_the_more_important_pod(cluster):
    await cluster.node("n", cpu="1")
    await cluster.client.create(
        by_kind("scheduling.k8s.io/v1", "PriorityClass"), {"metadata": {"name": "high"}, "value": 1000}
    )
    await cluster.pod("small", cpu="900m")
    await cluster.placed("small")
    await cluster.pod("big", cpu="900m", priorityClassName="high")

    async def victim_is_leaving():
        victim = await cluster.client.find(PODS, "small", "default")
        return victim is None or victim["metadata"].get("deletionTimestamp")

    await cluster.until(victim_is_leaving)
    victim = await cluster.client.find(PODS, "small", "default")
    if victim is not None:
        (target,) = [c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert target["reason"] == "PreemptionByScheduler"
        await cluster.client.delete(PODS, "small", "default", grace_period_seconds=0)
    assert await cluster.placed("big") == "n"


async def test_a_thousand_pods_are_each_placed_once_and_no_node_is_overfull(cluster):
    for number in range(20):
        await cluster.node(f"n{number}", cpu="8")
    await asyncio.gather(*(cluster.pod(f"p{number}") for number in range(1000)))

    async def all_placed():
        pods = (await cluster.client.list(PODS, "default")).documents()
        return all(pod["spec"].get("nodeName") for pod in pods) and pods

    pods = await cluster.until(all_placed, 60.0)
    per_node = {}
    for pod in pods:
        per_node[pod["spec"]["nodeName"]] = per_node.get(pod["spec"]["nodeName"], 0) + 1
    assert len(pods) == 1000 and max(per_node.values()) <= 80


# ── what is told, and what stays promised ──

PRIORITIES = by_kind("scheduling.k8s.io/v1", "PriorityClass")
EVENTS = by_kind("events.k8s.io/v1", "Event")


async def told(cluster, name):
    """Return the notes of the events about a pod."""
    events = (await cluster.client.list(EVENTS, "default")).documents()
    return [event["note"] for event in events if event["regarding"]["name"] == name]


async def until_told(cluster, name, words):
    async def check():
        pod = await cluster.client.get(PODS, name, "default")
        conditions = pod["status"].get("conditions") or ()
        return pod if any(words in c.get("message", "") for c in conditions) else None

    return await cluster.until(check)


async def full_node_and_a_preemptor(cluster):
    await cluster.node("n", cpu="1")
    await cluster.client.create(PRIORITIES, {"metadata": {"name": "high"}, "value": 1000})
    await cluster.pod("small", cpu="900m", terminationGracePeriodSeconds=60)
    await cluster.placed("small")
    await cluster.pod("big", cpu="900m", priorityClassName="high")


async def test_a_node_stays_promised_while_its_victims_leave(cluster):
    await full_node_and_a_preemptor(cluster)
    await until_told(cluster, "big", "found a potential placement")
    await cluster.node("other", [taint("x")])
    pod = await until_told(cluster, "big", "not eligible due to a terminating pod on the nominated node.")
    assert pod["status"].get("nominatedNodeName") == "n"


async def test_a_promise_is_void_when_no_node_is_left(cluster):
    await full_node_and_a_preemptor(cluster)
    await until_told(cluster, "big", "found a potential placement")
    await cluster.client.delete(NODES, "n")
    await cluster.client.delete(PODS, "small", "default", grace_period_seconds=0)
    pod = await until_told(cluster, "big", "no nodes available to schedule pods")
    assert "nominatedNodeName" not in pod["status"]


async def test_new_reasons_are_told_as_a_new_event_and_are_no_transition(cluster):
    await cluster.node("n", [taint("x")])
    await cluster.pod("p", cpu="2")
    before = await cluster.refused("p")
    cluster.clock.by_seconds = 2.0  # times are written in whole seconds
    await cluster.node("small", cpu="1")
    pod = await until_told(cluster, "p", "Insufficient cpu")
    (after,) = pod["status"]["conditions"]

    async def both():
        return len(await told(cluster, "p")) == 2

    await cluster.until(both)
    assert before["lastTransitionTime"] == after["lastTransitionTime"]


async def test_a_pod_that_is_being_deleted_is_told_that_it_is_passed_over(cluster):
    await cluster.node("n", [taint("x")])
    await cluster.pod("p")
    await cluster.refused("p")
    await cluster.client.patch(PODS, "p", {"metadata": {"finalizers": ["example.com/wait"]}}, "default")
    await cluster.client.delete(PODS, "p", "default")
    await cluster.taint("n")

    async def passed_over():
        return "skip schedule deleting pod: default/p" in await told(cluster, "p")

    assert await cluster.until(passed_over)


async def test_a_pod_resized_to_less_makes_room(cluster):
    await cluster.node("n", cpu="1")
    await cluster.pod("large", cpu="900m")
    await cluster.placed("large")
    await cluster.pod("waits", cpu="900m")
    await cluster.refused("waits")

    def given(amount):
        said = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        return {"status": {"containerStatuses": [{**said, "allocatedResources": {"cpu": amount}}]}}

    await cluster.client.patch(PODS, "large", given("900m"), "default", subresource="status")
    less = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}}
    await cluster.client.patch(
        PODS, "large", less, "default", subresource="resize", patch_type=STRATEGIC_MERGE_PATCH
    )
    await cluster.client.patch(PODS, "large", given("100m"), "default", subresource="status")
    assert await cluster.placed("waits") == "n"
