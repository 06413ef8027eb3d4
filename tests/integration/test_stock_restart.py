"""Pods that webhooks refused while the operator was down are there three seconds after it is back, as documented."""

from __future__ import annotations

import pytest

from tests.stock.virtual import StockCluster
from weir.lowering.names import ANNOTATED

GT = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
SLA950 = ("sla", "950", "NoExecute")
OUTAGE_SECONDS, DOCUMENTED_SECONDS = 300, 3
REPLICAS = 3
#: A controller that is refused tries again after 100 ms, doubling; no try falls into what is measured after this.
LAST_REFUSAL_SECONDS = 100


@pytest.fixture
def stock():
    with StockCluster() as cluster:
        for number in range(REPLICAS):
            cluster.node(f"n{number}")
            cluster.set_taints(f"n{number}", SLA950)
        yield cluster


def workload(kind, annotated=False):
    template = {
        "metadata": {"labels": {"app": "w"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
    }
    if annotated:
        template["metadata"]["annotations"] = {
            ANNOTATED: '[{"key": "sla", "operator": "Gt", "value": "900"}]'
        }
    else:
        template["spec"]["tolerations"] = [GT]
    spec = {"selector": {"matchLabels": {"app": "w"}}, "template": template}
    if kind != "DaemonSet":
        spec["replicas"] = REPLICAS
    if kind == "StatefulSet":
        spec["podManagementPolicy"] = "Parallel"
    metadata = {"name": "w", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def placed(stock):
    return sum(bool(pod["spec"].get("nodeName")) for pod in stock.list("Pod", "default"))


def lose_pods_while_nobody_answers(stock):
    """Delete every pod and keep the operator down, so that their controllers are refused again and again."""
    stock.kill_operator(0)
    for pod in stock.list("Pod", "default"):
        stock.delete("Pod", pod["metadata"]["name"], "default")
    stock.advance(OUTAGE_SECONDS)
    assert placed(stock) == 0


@pytest.mark.parametrize("annotated", [False, True], ids=["list", "annotation"])
@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"])
def test_refused_pods_are_made_soon_after_the_operator_answers(stock, kind, annotated):
    stock.create(workload(kind, annotated))
    stock.advance(10)
    assert placed(stock) == REPLICAS
    lose_pods_while_nobody_answers(stock)
    stock.start_operator("again")
    stock.advance(DOCUMENTED_SECONDS)
    assert placed(stock) == REPLICAS


def short_by_quota(stock, tolerations):
    """A ReplicaSet that is short of a pod because its namespace may have no more."""
    stock.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}})
    quota = {"metadata": {"name": "q", "namespace": "full"}, "spec": {"hard": {"pods": str(REPLICAS - 1)}}}
    stock.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    stock.advance(5)
    short = workload("ReplicaSet")
    short["metadata"]["namespace"], short["spec"]["template"]["spec"]["tolerations"] = "full", tolerations
    stock.create(short)
    stock.create(workload("DaemonSet"))
    stock.advance(10)
    assert stock.get("ReplicaSet", "w", "full")["status"]["replicas"] == REPLICAS - 1


def writes_of_a_restart(stock):
    def versions():
        kinds = (("DaemonSet", "default"), ("ReplicaSet", "full"))
        return {kind: stock.get(kind, "w", where)["metadata"]["resourceVersion"] for kind, where in kinds}

    stock.advance(LAST_REFUSAL_SECONDS)
    before = versions()
    stock.stop_operator(0)
    stock.start_operator("again")
    stock.advance(60)
    return {kind for kind, version in versions().items() if version != before[kind]}


def test_only_extended_workloads_that_are_short_of_pods_are_written(stock):
    """A write for each workload of a cluster would wake every controller at every start."""
    short_by_quota(stock, [GT])
    assert writes_of_a_restart(stock) == {"ReplicaSet"}
    status = stock.get("ReplicaSet", "w", "full")["status"]
    assert status["observedGeneration"] == 1 and status["replicas"] == REPLICAS - 1


def test_a_plain_workload_is_left_alone_though_it_is_short_of_pods(stock):
    short_by_quota(stock, [])
    assert writes_of_a_restart(stock) == set()
