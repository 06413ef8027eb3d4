"""The unmodified kube-scheduler and kube-controller-manager do their work against `weir apiserver`."""

from __future__ import annotations

import pytest

from tests.e2e.server import running_server
from tests.kubernetes.playground import Playground, pod, template
from tests.kubernetes.programs import controller_manager, scheduler

GATES = "AllAlpha=true"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    with (
        running_server(folder, "--feature-gates", GATES) as server,
        scheduler(folder, server.kubeconfig),
        controller_manager(folder, server.kubeconfig),
        Playground(server.kubeconfig) as playground,
    ):
        for number in range(3):
            playground.node(f"n{number}")
        playground.wait("the default service account", lambda: playground.get("ServiceAccount", "default"))
        yield playground


def running(cluster, selector):
    return [p for p in cluster.pods(selector) if p["status"].get("phase") == "Running"]


def test_a_pod_is_placed(cluster):
    cluster.create(pod("alone"))
    (placed,) = cluster.wait("the pod runs", lambda: running(cluster, "app=alone"))
    assert placed["spec"]["nodeName"]


def test_a_numeric_toleration_decides_where_it_goes(cluster):
    cluster.node("sla-high", [{"key": "sla", "value": "950", "effect": "NoSchedule"}], tier="sla")
    cluster.node("sla-low", [{"key": "sla", "value": "800", "effect": "NoSchedule"}], tier="sla")
    toleration = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}
    cluster.create(pod("picky", nodeSelector={"tier": "sla"}, tolerations=[toleration]))
    (placed,) = cluster.wait("the pod runs", lambda: running(cluster, "app=picky"))
    assert placed["spec"]["nodeName"] == "sla-high"


def test_a_deployment_rolls(cluster):
    labels = {"matchLabels": {"app": "web"}}
    cluster.create(
        {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"},
         "spec": {"replicas": 3, "selector": labels, "template": template("web")}}
    )  # fmt: skip
    cluster.wait("three pods run", lambda: len(running(cluster, "app=web")) == 3)
    before = {p["metadata"]["name"] for p in cluster.pods("app=web")}
    cluster.patch(
        "Deployment", "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}, "default"
    )

    def rolled():
        pods = running(cluster, "app=web")
        return len(pods) == 3 and all(p["metadata"]["labels"].get("v") == "2" for p in pods)

    cluster.wait("the new version runs alone", rolled)
    assert before.isdisjoint(p["metadata"]["name"] for p in running(cluster, "app=web"))


def test_a_job_completes(cluster):
    cluster.create(
        {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "sum"},
         "spec": {"completions": 2, "template": template("sum", restartPolicy="Never")}}
    )  # fmt: skip
    job = cluster.wait(
        "the job is complete",
        lambda: (j := cluster.get("Job", "sum")) and j["status"].get("succeeded") == 2 and j,
    )
    assert any(c["type"] == "Complete" and c["status"] == "True" for c in cluster.wait(
        "its condition", lambda: (cluster.get("Job", "sum") or job)["status"].get("conditions")))  # fmt: skip


def test_a_daemonset_runs_on_every_node(cluster):
    labels = {"matchLabels": {"app": "agent"}}
    everywhere = [{"operator": "Exists"}]
    cluster.create(
        {"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": "agent"},
         "spec": {"selector": labels, "template": template("agent", tolerations=everywhere)}}
    )  # fmt: skip
    nodes = cluster.wait(
        "a pod on every node",
        lambda: len(found := {p["spec"]["nodeName"] for p in running(cluster, "app=agent")}) >= 5 and found,
    )
    assert {"n0", "n1", "n2"} <= nodes


def test_a_noexecute_taint_evicts(cluster):
    cluster.node("doomed", tier="doomed")
    cluster.create(pod("leaves", nodeSelector={"tier": "doomed"}))
    stays = {"key": "failure-probability", "operator": "Lt", "value": "20", "effect": "NoExecute"}
    cluster.create(pod("stays", nodeSelector={"tier": "doomed"}, tolerations=[stays]))
    cluster.wait("both run", lambda: running(cluster, "app=leaves") and running(cluster, "app=stays"))
    taint = {"key": "failure-probability", "value": "15", "effect": "NoExecute"}
    cluster.patch("Node", "doomed", {"spec": {"taints": [taint]}})
    cluster.wait("the pod without a toleration is gone", lambda: not cluster.pods("app=leaves"))
    assert running(cluster, "app=stays")
    cluster.patch("Node", "doomed", {"spec": {"taints": [{**taint, "value": "25"}]}})
    cluster.wait("the other follows when the value is out of range", lambda: not cluster.pods("app=stays"))
