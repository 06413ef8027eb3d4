"""DaemonSets at work: controller, scheduler and server in one process under virtual time."""

from __future__ import annotations

import pytest

from tests.integration.living import PODS, living
from weir.controllers.runtime.runner import Controllers
from weir.controllers.workloads.daemonset import DaemonSets
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.objects.kinds import DAEMON_SETS as DAEMONSETS
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.run import Scheduler


def agent(**spec):
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return {
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def start(cluster):
    cluster.controllers = Controllers(cluster.client_of("weir"), cluster.clock, [DaemonSets(ALL_FEATURES)])
    cluster.start(cluster.controllers)
    config = SchedulerConfig(leader_elect=False)
    cluster.start(Scheduler(cluster.client_of("weir"), ALL_FEATURES, cluster.clock, config=config))


@pytest.fixture
async def cluster():
    async with living() as cluster:
        start(cluster)
        await cluster.advance()
        yield cluster


async def places(cluster):
    return sorted(pod["spec"].get("nodeName", "") for pod in await cluster.all(PODS))


async def test_every_node_gets_one_pod_tolerated_taints_included(cluster):
    await cluster.node("plain")
    await cluster.node("high", {"key": "sla", "value": "950", "effect": "NoExecute"})
    await cluster.node("low", {"key": "sla", "value": "800", "effect": "NoExecute"})
    tolerations = [{"key": "sla", "operator": "Gt", "value": "900"}]
    await cluster.client.create(DAEMONSETS, agent(tolerations=tolerations))
    await cluster.advance(2)
    assert await places(cluster) == ["high", "plain"]


async def test_a_new_node_gets_its_pod_and_status_says_so(cluster):
    await cluster.client.create(DAEMONSETS, agent())
    await cluster.node("n1")
    await cluster.advance(2)
    await cluster.node("n2")
    await cluster.advance(2)
    status = (await cluster.find(DAEMONSETS, "agent"))["status"]
    counts = (status["desiredNumberScheduled"], status["currentNumberScheduled"], status["numberReady"])
    assert (await places(cluster), counts) == (["n1", "n2"], (2, 2, 0))


async def test_a_template_the_server_refuses_backs_off_and_tells_once_with_a_count():
    async with living() as cluster:
        start(cluster)
        for number in range(5):
            await cluster.node(f"n{number}")
        tolerations = [{"key": "sla", "operator": "Gt", "value": "900"}]
        await cluster.client.create(DAEMONSETS, agent(tolerations=tolerations))
        parts = cluster.server.server.verbs
        parts.gates = KUBERNETES_DEFAULTS
        for pod in await cluster.all(PODS):
            await cluster.client.delete(PODS, pod["metadata"]["name"], "default", grace_period_seconds=0)
        await cluster.advance(60)
        (event,) = await cluster.events("FailedCreate")
        refused = cluster.controllers.metrics.refusals.child("daemonset-controller", "Invalid").value
        assert (await cluster.all(PODS), event["count"] > 1, refused < 40) == ([], True, True)
