"""Claims about weir.scheduler.decision_log, and what the whole cluster logs about its decisions."""

import io
import json
import logging

import pytest

from weir.observe.logs import configure
from weir.simulation.cluster import Cluster

pytestmark = pytest.mark.proves("5721-43", "5721-81", "5500-117")

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchExpressions: [{key: kernel, operator: SemverGt, values: [5.0.0]}]}}
  tolerations:
  - {key: sla, operator: Gt, value: "900"}
  - {key: cni, operator: SemverLt, value: 3.28.0}
  containers: [{name: c, image: i}]
"""
DAEMONS = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: collector}
spec:
  selector: {matchLabels: {app: c}}
  template:
    metadata: {labels: {app: c}}
    spec:
      tolerations: [{expression: "taint.key == 'sla' && int(taint.value) > 900"}]
      containers: [{name: c, image: i}]
"""


def lines(verbosity, act):
    """Return what *act* logs at a level, as data."""
    logger = logging.getLogger("weir")
    before = logger.handlers[:], logger.level, logger.propagate
    stream = io.StringIO()
    try:
        configure(verbosity, stream, "json")
        act()
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def live():
    """Refuse a pod, place it, evict it: with values that nobody can read on the way."""
    with Cluster() as cluster:
        cluster.add_node("n1", taints=["sla=high:NoSchedule"], labels={"kernel": "x-y"})
        cluster.add_node("n2", taints=["cni=calico:NoExecute"])
        cluster.apply(POD, DAEMONS)
        cluster.advance(5)
        cluster.taint("n1", "sla=950:NoExecute")
        cluster.advance(20)
        cluster.taint("n1", "sla=low:NoExecute")
        cluster.advance(60)


@pytest.fixture(scope="module")
def everything():
    """The same life, logged at the highest level."""
    return lines(10, live)


@pytest.fixture(scope="module")
def troubles():
    """And at the lowest."""
    return lines(0, live)


def said(lines, logger, sentence):
    return [each for each in lines if each["logger"] == logger and each["msg"] == sentence]


def test_decisions_are_told_from_level_2_on_and_troubles_always(everything, troubles):
    loud = [each for each in everything if each.get("v", 0) <= 2]
    placed = said(loud, "weir.scheduler", "Successfully bound pod to node")
    assert {"name": "web", "namespace": "default"} in [each["pod"] for each in placed]
    (refused, *_) = said(loud, "weir.scheduler", "Unable to schedule pod; no fit; waiting")
    assert "{sla: high} (its value is not an integer)" in refused["err"]
    (evicted,) = [
        each
        for each in said(loud, "weir.controllers", "Not all taints are tolerated, evicting pod")
        if each["pod"]["name"] == "web"
    ]
    assert evicted["node"] == "n1" and evicted["taint"] == "sla=low:NoExecute"
    assert {each["msg"] for each in troubles} == {
        "failed to parse taint value as int64",
        "failed to parse taint value as semantic version",
        "CEL expression failed for taint",
    }


def test_values_that_cannot_be_read_are_told_by_every_component_with_the_object(troubles):
    told = troubles
    integers = [x for x in told if x["msg"] == "failed to parse taint value as int64"]
    assert {(x["logger"], x["taint"], x["key"], x["node"]) for x in integers} == {
        ("weir.scheduler", "high", "sla", "n1"),
        ("weir.controllers", "low", "sla", "n1"),
    }
    versions = [x for x in told if x["msg"] == "failed to parse taint value as semantic version"]
    assert [(x["logger"], x["taint"], x["toleration"]) for x in versions] == [
        ("weir.scheduler", "calico", "SemverLt 3.28.0")
    ]
    failed = [x for x in told if x["msg"] == "CEL expression failed for taint"]
    assert {x["pod"]["name"] for x in failed if x["logger"] == "weir.controllers"} >= {"collector"}
    assert all("int(taint.value)" in x["expression"] and x["err"] for x in failed)


def test_the_same_pair_is_told_of_once(troubles):
    pairs = [
        (x["logger"], x["msg"], x["key"], x["taint"], x["effect"], x.get("expression")) for x in troubles
    ]
    assert len([p for p in pairs if p[0] == "weir.scheduler"]) == len(
        {p for p in pairs if p[0] == "weir.scheduler"}
    )


def test_the_highest_level_names_every_node_and_every_label_that_could_not_be_read(everything):
    nodes = said(everything, "weir.scheduler", "Node refused pod")
    assert {(x["node"], x["plugin"]) for x in nodes} >= {("n1", "TaintToleration"), ("n2", "TaintToleration")}
    (label, *_) = said(everything, "weir.scheduler", "Parse semver failed for value in label")
    assert (label["label"], label["value"], label["node"], label["v"]) == ("kernel", "x-y", "n1", 10)


def test_each_level_adds_something(everything):
    shown = {each.get("v") for each in everything}
    assert shown >= {None, 1, 2, 3, 4, 5, 6, 10}


def test_a_kubelet_with_unreadable_taints_says_so():
    def act():
        with Cluster(controllers=["*", "-taint-eviction"]) as cluster:
            cluster.add_node("n1", taints=["sla=high:NoExecute"])
            pod = POD.replace("spec:", "spec:\n  nodeName: n1", 1)
            cluster.apply(pod)
            cluster.advance(5)
            assert cluster.get("Pod", "web")["status"]["reason"] == "TaintToleration"

    told = lines(2, act)
    (failed,) = said(told, "weir.simulation.kubelet", "failed to parse taint value as int64")
    (rejected,) = said(told, "weir.simulation.kubelet", "Rejected pod")
    assert failed["node"] == "n1" and rejected["reason"] == "TaintToleration"


def test_device_taints_that_a_claim_cannot_compare_are_told_with_the_device():
    request = {"name": "g", "exactly": {"deviceClassName": "gpu.example.com"}}
    request["exactly"]["tolerations"] = [{"key": "hours", "operator": "Gt", "value": "24"}]

    def act():
        with Cluster() as cluster:
            cluster.add_node("n1", devices=1)
            taint = {"key": "hours", "value": "many", "effect": "NoSchedule"}
            cluster.apply(
                {
                    "apiVersion": "resource.k8s.io/v1beta2",
                    "kind": "DeviceTaintRule",
                    "metadata": {"name": "budget"},
                    "spec": {"deviceSelector": {}, "taint": taint},
                },
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": {"name": "gpu"},
                    "spec": {"devices": {"requests": [request]}},
                },
                POD.replace("spec:", "spec:\n  resourceClaims: [{name: g, resourceClaimName: gpu}]", 1),
            )
            cluster.advance(5)

    (told,) = said(lines(0, act), "weir.scheduler", "failed to parse taint value as int64")
    assert (told["taint"], told["toleration"], told["key"]) == ("many", "Gt 24", "hours")
    assert "n1" in told["device"] and told["pod"]["name"] == "web"


@pytest.mark.proves("5471-62")
def test_a_value_that_cannot_be_read_is_told_of_though_the_pod_is_placed_elsewhere():
    def place():
        with Cluster() as cluster:
            cluster.add_node("odd", taints=["sla=high:NoSchedule"])
            cluster.add_node("good", taints=["sla=950:NoSchedule"])
            cluster.apply(POD)
            cluster.advance(5)
            assert cluster.get("Pod", "web")["spec"]["nodeName"] == "good"

    told = [(line["msg"], line["taint"], line["node"]) for line in lines(0, place) if "taint" in line]
    assert told == [("failed to parse taint value as int64", "high", "odd")]
