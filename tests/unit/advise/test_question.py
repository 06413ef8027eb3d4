"""Which nodes would take a pod of a workload, without its own pods in the way."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.advise.clusters import ask, entry, node, workload
from weir.advise.question import Cluster, Question
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.objects import pod_reader
from weir.objects.pod_reader import SnapshotPods
from weir.world import World

SMALL = {"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}}


def running(name: str, on: str, owner: str = "web-1", cpu: str = "1") -> dict:
    owners = [{"kind": "ReplicaSet", "name": owner, "controller": True, "apiVersion": "apps/v1", "uid": "u"}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    }


OF_WEB = {
    "kind": "ReplicaSet",
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "ownerReferences": [{"kind": "Deployment", "name": "web"}],
    },
}


def test_a_node_that_is_full_of_the_workloads_own_pods_takes_it():
    wants = {"resources": {"requests": {"cpu": "1"}}, "name": "c", "image": "web"}
    cluster = Cluster(
        World.of(
            [
                node("n1") | SMALL,
                node("n2") | SMALL,
                OF_WEB,
                running("web-1-a", "n1"),
                running("db-1-a", "n2", owner="db-1"),
            ]
        ),
        ALL_FEATURES,
    )
    web = Question(Subject.of(workload(containers=[wants])), cluster)
    other = Question(Subject.of(workload(containers=[wants], name="other")), cluster)
    assert (web.fitting(), other.fitting()) == ({"n1"}, frozenset())
    # Asked again, in the other order: setting pods aside leaves nothing behind.
    assert Question(Subject.of(workload(containers=[wants], name="other")), cluster).fitting() == frozenset()
    assert Question(Subject.of(workload(containers=[wants])), cluster).fitting() == {"n1"}


def test_the_workloads_own_pods_are_set_aside_without_being_read(monkeypatch):
    wants = {"resources": {"requests": {"cpu": "100m"}}, "name": "c", "image": "web"}
    pods = SnapshotPods.of(json.dumps(running(f"web-1-{n}", "n1", cpu="100m")).encode() for n in range(10))
    cluster = Cluster(World.of([node("n1") | SMALL, OF_WEB], pods=pods), ALL_FEATURES)
    reads: list[Any] = []
    read_pod = pod_reader.read_pod
    monkeypatch.setattr(pod_reader, "read_pod", lambda source: reads.append(source) or read_pod(source))
    assert Question(Subject.of(workload(containers=[wants])), cluster).fitting() == {"n1"}
    assert len(reads) == 1  # for the class that all of them share


def test_a_stored_pod_is_not_in_its_own_way():
    pod = running("solo", "n1", owner="nobody")
    pod["metadata"]["ownerReferences"] = []
    cluster = Cluster(World.of([node("n1") | SMALL, pod]), ALL_FEATURES)
    assert Question(Subject.of(pod, stored=True), cluster).fitting() == {"n1"}


def test_changed_tolerations_are_asked_about_and_the_workload_stays_as_it_is():
    document = workload(entry("sla", "Gt", "950"))
    question = ask(document, node("n1", sla="940"), node("n2", sla="960"))
    assert question.fitting() == {"n2"}
    assert question.fitting(question.with_value(0, "900")) == {"n1", "n2"}
    assert question.fitting(question.with_tolerations([])) == frozenset()
    assert document == workload(entry("sla", "Gt", "950"))


def test_what_the_api_server_refuses_fits_nowhere():
    question = ask(workload(entry("sla", "Gt", "many")), node("n1"))
    assert question.fitting() == frozenset() and question.admitted.refused
