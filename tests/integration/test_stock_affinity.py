"""SemVer node affinity in an annotation, on a stock cluster: it places pods as if it were written in their affinity."""

from __future__ import annotations

import json

import pytest

from tests.stock.virtual import StockCluster
from weir.lowering.names import ANNOTATED_AFFINITY

NEWER = {"key": "kernel", "operator": "SemverGt", "values": ["5.15.0"]}
REQUIRED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [NEWER]}]}
}


@pytest.fixture
def stock():
    with StockCluster() as cluster:
        cluster.node("old", kernel="5.4.0")
        cluster.node("new", kernel="6.1.0")
        yield cluster


def workload(kind, affinity=REQUIRED):
    metadata = {"labels": {"app": "w"}, "annotations": {ANNOTATED_AFFINITY: json.dumps(affinity)}}
    containers = [{"name": "c", "image": "i"}]
    template = {"metadata": metadata, "spec": {"containers": containers, "terminationGracePeriodSeconds": 0}}
    spec = {"selector": {"matchLabels": {"app": "w"}}, "template": template}
    if kind != "DaemonSet":
        spec["replicas"] = 2
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": spec,
    }


def nodes_of_pods(stock):
    return {pod["spec"].get("nodeName", "") for pod in stock.list("Pod", "default")}


def test_a_deployment_is_stored_as_it_was_written_and_its_pods_go_where_it_says(stock):
    written = workload("Deployment")
    assert stock.create(written)["spec"]["template"]["spec"].get("affinity") is None
    stock.advance(10)
    assert nodes_of_pods(stock) == {"new"}
    assert len(stock.list("ReplicaSet", "default")) == 1


def test_a_daemonset_follows_the_label_of_nodes_and_an_edit_of_the_annotation(stock):
    stock.create(workload("DaemonSet"))
    stock.advance(10)
    assert nodes_of_pods(stock) == {"new"}
    stock.patch("Node", "old", {"metadata": {"labels": {"kernel": "6.2.0"}}})
    stock.advance(20)
    assert nodes_of_pods(stock) == {"new", "old"}
    stock.patch("Node", "new", {"metadata": {"labels": {"kernel": "5.0.0"}}})
    stock.advance(20)
    assert nodes_of_pods(stock) == {"old"}
    term = {"matchExpressions": [{**NEWER, "operator": "SemverLt"}]}
    older = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    annotations = {"metadata": {"annotations": {ANNOTATED_AFFINITY: json.dumps(older)}}}
    stock.patch("DaemonSet", "w", {"spec": {"template": annotations}}, "default")
    stock.advance(30)
    assert nodes_of_pods(stock) == {"new"}
