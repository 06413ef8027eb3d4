"""Simulated nodes at work: they report, admit, run, end and fail on command, under virtual time."""

from __future__ import annotations

import pytest

from tests.integration.living import NODES, PODS, living
from weir.controllers.nodes.lifecycle import NodeLifecycle
from weir.controllers.runtime.runner import Controllers
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS
from weir.simulation.kubelet.node_classes import FAILED, NodeClass, node_document
from weir.simulation.kubelet.run import Kubelets
from weir.taints.notation import parse_taint


@pytest.fixture
async def cluster():
    async with living() as cluster:
        cluster.start(Kubelets(cluster.client_of("kubelet"), ALL_FEATURES, cluster.clock))
        cluster.start(Controllers(cluster.client_of("weir"), cluster.clock, [NodeLifecycle(ALL_FEATURES)]))
        await cluster.advance()
        yield cluster


async def add(cluster, name, *taints, life=None):
    now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    document = node_document(name, NodeClass(life=life or {}), tuple(map(parse_taint, taints)), {}, now)
    await cluster.client.create(NODES, document)
    await cluster.clock.settle()


async def phase(cluster, name):
    pod = await cluster.find(PODS, name)
    return pod and pod["status"]["phase"]


def ready(pod):
    return [c["status"] for c in pod["status"]["conditions"] if c["type"] == "Ready"]


async def test_a_simulated_node_stays_ready(cluster):
    await add(cluster, "n")
    await cluster.advance(1000)
    node = await cluster.find(NODES, "n")
    assert (
        [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"],
        node["spec"].get("taints"),
    ) == (
        ["True"],
        None,
    )


async def test_a_pod_starts_after_its_time_and_is_ready(cluster):
    await add(cluster, "n", life={"startSeconds": 3})
    await cluster.pod("p", "n")
    await cluster.advance(2)
    early = await phase(cluster, "p")
    await cluster.advance(2)
    assert (early, await phase(cluster, "p"), ready(await cluster.find(PODS, "p"))) == (
        "Pending",
        "Running",
        ["True"],
    )


async def test_a_pod_that_ends_by_itself_succeeds(cluster):
    await add(cluster, "n", life={"runSeconds": 10})
    await cluster.pod("p", "n", restartPolicy="Never")
    await cluster.advance(5)
    early = await phase(cluster, "p")
    await cluster.advance(10)
    assert (early, await phase(cluster, "p")) == ("Running", "Succeeded")


async def test_a_deleted_pod_ends_gracefully(cluster):
    await add(cluster, "n", life={"terminateSeconds": 4})
    await cluster.pod("p", "n")
    await cluster.advance(5)
    await cluster.client.delete(PODS, "p", "default")
    await cluster.advance(3)
    early = await phase(cluster, "p")
    await cluster.advance(2)
    assert (early, await phase(cluster, "p")) == ("Running", None)


async def test_a_pod_that_does_not_tolerate_is_rejected_and_told(cluster):
    await add(cluster, "n", "sla=5:NoExecute")
    await cluster.pod("p", "n")
    await cluster.advance(5)
    status = (await cluster.find(PODS, "p"))["status"]
    (event,) = await cluster.events("TaintToleration")
    assert (status["phase"], status["reason"], status["message"], event["type"], event["message"]) == (
        "Failed",
        "TaintToleration",
        "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
        "Warning",
        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
    )


async def test_a_running_pod_is_not_looked_at_again(cluster):
    await add(cluster, "n")
    await cluster.pod("p", "n")
    await cluster.advance(5)
    await cluster.taint("n", {"key": "sla", "value": "5", "effect": "NoExecute"})
    await cluster.advance(5)
    assert await phase(cluster, "p") == "Running"


async def test_a_kubelet_with_the_gate_off_rejects():
    async with living() as cluster:
        cluster.start(Kubelets(cluster.client_of("kubelet"), KUBERNETES_DEFAULTS, cluster.clock))
        await add(cluster, "n", "sla=5:NoExecute")
        entry = {"key": "sla", "operator": "Lt", "value": "9", "effect": "NoExecute"}
        await cluster.pod("p", "n", tolerations=[entry])
        await cluster.advance(5)
        assert (await cluster.find(PODS, "p"))["status"]["reason"] == "TaintToleration"


async def test_a_node_that_is_switched_off_is_lost_and_comes_back(cluster):
    await add(cluster, "n")
    await add(cluster, "other")
    await cluster.advance(30)
    await cluster.client.patch(NODES, "n", {"metadata": {"annotations": {FAILED: "true"}}})
    await cluster.advance(80)
    lost = {t["key"] for t in (await cluster.find(NODES, "n"))["spec"].get("taints") or ()}
    await cluster.client.patch(NODES, "n", {"metadata": {"annotations": {FAILED: None}}})
    await cluster.advance(10)
    back = (await cluster.find(NODES, "n"))["spec"].get("taints")
    assert (lost, back) == ({"node.kubernetes.io/unreachable"}, None)


async def test_nodes_that_are_not_simulated_are_left_alone(cluster):
    await cluster.node("real")
    await cluster.pod("p", "real")
    await cluster.advance(30)
    assert await phase(cluster, "p") == "Pending"


async def test_a_second_process_goes_on_with_what_runs():
    async with living() as cluster:
        cluster.start(Kubelets(cluster.client_of("kubelet"), ALL_FEATURES, cluster.clock))
        await add(cluster, "n")
        await cluster.pod("p", "n")
        await cluster.advance(5)
        cluster.tasks.pop().cancel()
        await cluster.taint("n", {"key": "sla", "value": "5", "effect": "NoExecute"})
        cluster.start(Kubelets(cluster.client_of("kubelet"), ALL_FEATURES, cluster.clock))
        await cluster.advance(20)
        assert await phase(cluster, "p") == "Running"
