"""A template the API server refuses: tried less and less often, told once, and repaired at once."""

from __future__ import annotations

import pytest

from tests.integration.test_workloads import web
from weir.simulation.cluster import Cluster

pytestmark = pytest.mark.proves("5721-45", "5721-46")


@pytest.fixture
def cluster():
    with Cluster(nodes=1) as cluster:
        cluster.advance(5)
        yield cluster


def template(**spec):
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "web:1"}], "priorityClassName": "missing", **spec},
    }


def refused(kind, name="web", **more):
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **more}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def tries(cluster, controller):
    """Return how often the server refused, and how many workloads wait because of it."""
    metrics = cluster.plane.controllers.metrics
    told = metrics.refusals.child(controller, "Forbidden").value
    waiting = metrics.refused_workloads.child(controller)
    return told, waiting.look()


def conditions(cluster, kind, name):
    found = cluster.get(kind, name)["status"].get("conditions") or ()
    return {c["type"]: (c["status"], c["reason"]) for c in found}


@pytest.mark.parametrize(
    "document, controller",
    [
        (refused("DaemonSet"), "daemonset-controller"),
        (refused("StatefulSet", serviceName="web"), "statefulset-controller"),
        (refused("Deployment", replicas=50), "replicaset-controller"),
    ],
    ids=lambda given: given["kind"] if isinstance(given, dict) else "",
)
def test_an_hour_of_refusals_is_a_few_tries_and_one_event(cluster, document, controller):
    cluster.apply(document)
    cluster.advance(3600)
    told, waiting = tries(cluster, controller)
    events = cluster.events("FailedCreate")
    assert (told <= 20, waiting, len(events), events[0]["count"] == told) == (True, 1, 1, True)


def test_a_deployment_says_that_its_pods_are_refused(cluster):
    cluster.apply(refused("Deployment", replicas=2))
    cluster.advance(60)
    assert conditions(cluster, "Deployment", "web")["ReplicaFailure"] == ("True", "FailedCreate")


def test_a_repaired_template_is_tried_at_once(cluster):
    cluster.apply(refused("DaemonSet"))
    cluster.advance(3600)
    repaired = refused("DaemonSet")
    repaired["spec"]["template"]["spec"].pop("priorityClassName")
    cluster.apply(repaired)
    cluster.advance(3)
    (pod,) = cluster.list("Pod")
    assert (pod["status"]["phase"], tries(cluster, "daemonset-controller")[1]) == ("Running", 0)


def test_the_failure_is_no_longer_said_when_it_is_over(cluster):
    cluster.apply(refused("Deployment", replicas=2))
    cluster.advance(60)
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "missing"},
    }
    cluster.apply({**priority, "value": 5})
    cluster.advance(1100)
    assert "ReplicaFailure" not in conditions(cluster, "Deployment", "web")


def test_a_refused_template_does_not_hold_up_others(cluster):
    cluster.apply(refused("Deployment", "bad", replicas=50), web(2))
    cluster.advance(30)
    running = [p for p in cluster.list("Pod") if p["status"]["phase"] == "Running"]
    assert len(running) == 2


def limit_replicasets(number):
    """Return a quota that lets so many ReplicaSets be."""
    spec = {"hard": {"count/replicasets.apps": str(number)}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}


def test_a_refused_replicaset_is_said_by_the_deployment_until_it_is_there(cluster):
    cluster.apply(limit_replicasets(0), web(1))
    cluster.advance(30)
    refused_one = (
        conditions(cluster, "Deployment", "web")["Progressing"],
        cluster.events("ScalingReplicaSet"),
    )
    cluster.apply(limit_replicasets(5))
    cluster.advance(120)
    assert (refused_one, conditions(cluster, "Deployment", "web")["Progressing"]) == (
        (("False", "ReplicaSetCreateError"), []),
        ("True", "NewReplicaSetAvailable"),
    )


def test_a_job_whose_pods_are_refused_has_begun_and_has_none(cluster):
    inner = {"spec": {**template()["spec"], "restartPolicy": "Never"}}
    cluster.apply(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": inner}}
    )
    cluster.advance(60)
    status = cluster.get("Job", "j")["status"]
    assert ("startTime" in status, status.get("active", 0)) == (True, 0)
