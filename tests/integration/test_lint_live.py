"""`weir lint --cluster`: which workloads of a running cluster are stuck, and which are not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.test_refusals import refused
from tests.integration.test_workloads import web
from weir.gates import ALL_FEATURES
from weir.lint.check import lint
from weir.lint.live import Troubles, is_own
from weir.objects.manifest import Document
from weir.simulation.cluster import Cluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = ("Node", "Pod", "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "CronJob", "Event")


def documents(cluster):
    versions = {
        "Deployment": "apps/v1",
        "ReplicaSet": "apps/v1",
        "DaemonSet": "apps/v1",
        "StatefulSet": "apps/v1",
    }
    return [
        {"kind": kind, "apiVersion": versions.get(kind, "v1"), **each}
        for kind in KINDS
        for each in cluster.list(kind)
    ]


def codes(cluster):
    """Return what is found in what people wrote: (code, object)."""
    found = documents(cluster)
    troubles = Troubles.of(found, cluster.now)
    own = [
        Document(each, "x", ()) for each in found if each["kind"] not in ("Node", "Event") and is_own(each)
    ]
    return sorted(
        (f.rule.code, f.object) for f in lint(own, ALL_FEATURES, troubles=troubles) if f.severity.fails
    )


@pytest.fixture
def cluster():
    with Cluster(nodes=2) as cluster:
        cluster.advance(5)
        yield cluster


def test_a_healthy_cluster_has_no_findings(cluster):
    cluster.apply(web(3))
    cluster.advance(30)
    assert codes(cluster) == []


@pytest.mark.parametrize(
    "kind, more", [("Deployment", {}), ("DaemonSet", {}), ("StatefulSet", {"serviceName": "s"})]
)
def test_a_refused_workload_is_named_once_by_what_a_person_wrote(cluster, kind, more):
    cluster.apply(refused(kind, **more))
    cluster.advance(900)
    assert codes(cluster) == [("W030", f"{kind} default/web")]


def test_a_repaired_workload_is_no_longer_named(cluster):
    cluster.apply(refused("DaemonSet"))
    cluster.advance(60)
    repaired = refused("DaemonSet")
    repaired["spec"]["template"]["spec"].pop("priorityClassName")
    cluster.apply(repaired)
    cluster.advance(30)
    assert codes(cluster) == []


def test_pods_that_kubelets_reject_again_and_again_are_a_loop():
    off = {"TaintTolerationComparisonOperators": False}
    on = {"TaintTolerationComparisonOperators": True}
    gates = {"apiserver": on, "scheduler": on, "controllers": on, "kubelet": off}
    with Cluster(gates=gates) as cluster:
        cluster.add_nodes(1, taints=["sla=950:NoExecute"])
        document = web(1)
        entry = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
        document["spec"]["template"]["spec"]["tolerations"] = [entry]
        cluster.apply(document)
        cluster.advance(20)
        assert ("W031", "Deployment default/web") in codes(cluster)


def test_pods_that_are_evicted_again_and_again_are_a_loop():
    off = {"TaintTolerationComparisonOperators": False}
    on = {"TaintTolerationComparisonOperators": True}
    gates = {"apiserver": on, "scheduler": on, "controllers": off, "kubelet": on}
    with Cluster(gates=gates) as cluster:
        cluster.add_nodes(1, taints=["sla=950:NoExecute"])
        document = web(1)
        entry = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}
        document["spec"]["template"]["spec"]["tolerations"] = [entry]
        cluster.apply(document)
        cluster.advance(20)
        assert ("W031", "Deployment default/web") in codes(cluster)


def test_pods_that_find_no_node_are_told_of_their_workload_in_the_schedulers_words(cluster):
    document = web(3)
    document["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "none"}
    cluster.apply(document)
    cluster.advance(20)
    found = documents(cluster)
    (name, waiting), *others = Troubles.of(found, cluster.now).waiting.items()
    assert (name, others) == (("Deployment", "default", "web"), [])
    assert waiting.pods == 3 and waiting.message.startswith(
        "0/2 nodes are available: 2 node(s) didn't match Pod's"
    )
    assert codes(cluster) == [("W032", "Deployment default/web")]
    for pod in (each for each in found if each["kind"] == "Pod"):
        pod["status"].pop("conditions")  # a scheduler that writes events only
    assert Troubles.of(found, cluster.now).waiting[name].pods == 3


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"nodeName": "n1"}},
        {"status": {"phase": "Running"}},
        {
            "status": {
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
            }
        },
        {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}},
    ],
    ids=["bound", "running", "gated", "scheduled"],
)
def test_pods_that_wait_for_no_node_are_not_told(change):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    assert list(Troubles.of([pod], NOW).waiting) == [("Pod", "default", "p")]
    assert Troubles.of([{**pod, **change}], NOW).waiting == {}


def evicted(at, pods, reason="DeviceTaintManagerEviction"):
    """Return the documents of a Deployment whose *pods* were evicted at *at*, each once, and replaced since."""
    owner = {"kind": "ReplicaSet", "name": "web-1", "controller": True}
    deployment = {"kind": "Deployment", "name": "web", "controller": True}
    amounts = {"spec": {"replicas": 3}, "status": {"replicas": 3, "readyReplicas": 3}}
    yield {"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, **amounts}
    metadata = {"name": "web-1", "namespace": "default", "ownerReferences": [deployment]}
    yield {"kind": "ReplicaSet", "metadata": metadata, **amounts}
    for number in range(pods):
        about = {"kind": "Pod", "namespace": "default", "name": f"web-1-abcd{number}"}
        yield {
            "kind": "Event",
            "reason": reason,
            "involvedObject": about,
            "lastTimestamp": at.isoformat(),
            "count": 1,
        }
    yield {
        "kind": "Pod",
        "metadata": {"name": "web-1-zzzzz", "namespace": "default", "ownerReferences": [owner]},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize(
    ("pods", "minutes", "loops"),
    [
        (3, 1, False),  # a deliberate eviction: every pod once
        (3, 40, False),
        (9, 1, True),  # replacements are lost as well
        (9, 40, False),  # and that is over
    ],
)
def test_a_deliberate_eviction_is_no_loop_and_a_loop_ends(pods, minutes, loops):
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    found = Troubles.of(evicted(now - timedelta(minutes=minutes), pods), now)
    assert bool(found.loops) == loops
