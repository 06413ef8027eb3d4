"""All replicas of a workload are placed, one after the other, and what keeps the next one out is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weir.explain.explanation import Explanation
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.world import World

LABELS = {"app": "web"}


def nodes(count: int, cpu: str = "8") -> list[dict[str, Any]]:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return [
        {
            "kind": "Node",
            "metadata": {"name": f"n{n}", "labels": {"zone": f"z{n}"}},
            "status": {"allocatable": dict(room)},
        }
        for n in range(count)
    ]


def workload(kind: str = "Deployment", replicas: int = 3, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container], **spec.pop("pod", {})}}
    amount = {"parallelism": replicas} if kind == "Job" else {"replicas": replicas}
    metadata = {"name": "web", "namespace": "default"}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": LABELS}, "serviceName": "web"}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {**amount, **selector, "template": template, **spec},
    }


def ask(document: dict[str, Any], *documents: dict[str, Any], in_cluster: bool = False) -> Explanation:
    subject = replace(Subject.of(document), in_cluster=in_cluster)
    return explain(subject, World.of(documents), ALL_FEATURES)


def pods(count: int, cpu: str = "1", on: str = "n0") -> list[dict[str, Any]]:
    owner = {"kind": "ReplicaSet", "name": "web-1", "controller": True}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    owners = [{"kind": "Deployment", "name": "web"}]
    replica_set = {"kind": "ReplicaSet", "metadata": {"name": "web-1", "ownerReferences": owners}, "spec": {}}
    return [
        replica_set,
        *(
            {
                "kind": "Pod",
                "metadata": {"name": f"web-1-{n}", "labels": LABELS, "ownerReferences": [owner]},
                "spec": {"nodeName": on, "containers": [container]},
                "status": {"phase": "Running"},
            }
            for n in range(count)
        ),
    ]


def test_ten_thousand_replicas_are_counted_and_the_next_one_fails():
    answer = ask(workload(replicas=1000, cpu="7"), *nodes(500))
    assert str(answer) == (
        "Deployment default/web: 500 of 1,000 would run; the next one fails: "
        "0/500 nodes are available: 500 Insufficient cpu."
    )
    assert not answer.complete


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_every_kind_with_replicas_is_judged_whole(kind):
    replicas = ask(workload(kind, 20, "3"), *nodes(4)).replicas
    assert (replicas.wanted, replicas.placed, replicas.short) == (20, 8, True)


def test_all_replicas_that_fit_are_fine():
    answer = ask(workload(replicas=8), *nodes(1))
    assert (answer.complete, answer.replicas.line()) == (True, "8 of 8 would run")


def test_each_replica_holds_its_host_port():
    port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    document = workload(replicas=3)
    document["spec"]["template"]["spec"]["containers"][0] |= port
    assert ask(document, *nodes(2)).replicas.placed == 2


def test_each_replica_counts_in_the_spread():
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": {"matchLabels": LABELS}}  # fmt: skip
    document = workload(replicas=5, pod={"topologySpreadConstraints": [spread]}, cpu="3")
    small = nodes(2)
    small[1]["status"]["allocatable"]["cpu"] = "3"
    assert ask(document, *small).replicas.placed == 3


def test_a_quota_ends_the_row():
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "4"}}}
    replicas = ask(workload(replicas=9), *nodes(4), quota).replicas
    assert (replicas.placed, replicas.why_not) == (
        4,
        "exceeded quota: q, requested: requests.cpu=1, limited: requests.cpu=4",
    )


def test_what_runs_already_is_not_placed_again():
    replicas = ask(workload(replicas=9), *nodes(1), *pods(6), in_cluster=True).replicas
    assert (replicas.running, replicas.placed, replicas.short) == (6, 2, True)


def test_a_rolling_update_needs_room_for_its_surge_or_may_be_short_for_a_while():
    full = [*nodes(1, "4"), *pods(4)]
    stuck = ask(workload(replicas=4, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}), *full)
    assert (stuck.replicas.short, stuck.complete) == (True, False)
    patient = ask(
        workload(replicas=4, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}), *full
    )
    assert (patient.fits, patient.complete) == (False, True)
    assert str(patient) == "Deployment default/web: 4 of 4 pods would be replaced"
    flowing = ask(workload(replicas=4, cpu="500m"), *nodes(1, "5"), *pods(4)).replicas
    assert (flowing.rolled_over, flowing.short) == (True, False)


def test_a_daemon_set_is_judged_on_every_node_it_is_for():
    agents = workload("DaemonSet", cpu="2")
    del agents["spec"]["replicas"]
    tainted, small, large = nodes(3)
    tainted["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    small["status"]["allocatable"]["cpu"] = "1"
    replicas = ask(agents, tainted, small, large).replicas
    assert (replicas.wanted, replicas.placed, replicas.why_not) == (2, 1, "on n1, cpu: needs 2, 1 free of 1")


def owned(kind: str, name: str, on: str, cpu: str) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": LABELS,
            "ownerReferences": [{"kind": kind, "name": "web", "controller": True}],
        },
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    }


def rolling(**update: int | str) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": update}}


def test_a_stateful_set_is_replaced_from_its_highest_number_down_in_the_room_its_old_pods_leave():
    cluster = [*nodes(3, "2"), *(owned("StatefulSet", f"web-{n}", f"n{n}", "2") for n in range(3))]
    answer = ask(workload("StatefulSet", 3, cpu="2"), *cluster)
    assert (answer.fits, answer.complete) == (False, True)
    assert str(answer) == "StatefulSet default/web: 3 of 3 pods would be replaced"
    larger = ask(workload("StatefulSet", 3, cpu="3"), *cluster).replicas
    assert (larger.placed, larger.short) == (0, True) and "Insufficient cpu" in larger.why_not


def test_a_pod_below_the_partition_stays_and_a_new_one_comes_first():
    cluster = [*nodes(3, "2"), *(owned("StatefulSet", f"web-{n}", f"n{n}", "2") for n in range(2))]
    split = ask(workload("StatefulSet", 2, cpu="3", **rolling(partition=2)), *cluster).replicas
    assert (split.placed, split.short) == (2, False)
    grown = ask(workload("StatefulSet", 3, cpu="2"), *cluster).replicas
    assert (grown.placed, grown.short) == (3, False)
    too_many = ask(workload("StatefulSet", 4, cpu="2"), *cluster).replicas
    assert too_many.placed == 1  # the fourth finds no room, and nothing is replaced before it is there


def test_pods_that_are_replaced_only_when_deleted_are_not_rolled_over():
    cluster = [*nodes(1, "8"), owned("StatefulSet", "web-0", "n0", "2")]
    by_hand = {"updateStrategy": {"type": "OnDelete"}}
    assert not ask(workload("StatefulSet", 2, **by_hand), *cluster).replicas.rolled_over


def test_a_daemon_set_is_replaced_in_the_room_its_old_pod_leaves_unless_it_surges():
    agents = workload("DaemonSet", cpu="2")
    del agents["spec"]["replicas"]
    cluster = [*nodes(2, "3"), *(owned("DaemonSet", f"web-{n}", f"n{n}", "2") for n in range(2))]
    replaced = ask(agents, *cluster)
    assert (replaced.replicas.placed, replaced.replicas.rolled_over, replaced.complete) == (2, True, True)
    surging = ask({**agents, "spec": {**agents["spec"], **rolling(maxSurge=1)}}, *cluster)
    assert (surging.replicas.placed, surging.complete) == (0, False)
    assert surging.replicas.why_not == "on n0, cpu: needs 2, 1 free of 3"
    larger = ask(workload("DaemonSet", cpu="4"), *cluster).replicas
    assert (larger.placed, larger.why_not) == (0, "on n0, cpu: needs 4, 3 free of 3")
    as_it_is = ask(agents, *cluster, in_cluster=True).replicas
    assert (as_it_is.running, as_it_is.rolled_over) == (2, False)


def test_each_pod_of_a_stateful_set_gets_claims_of_its_own():
    document = workload("StatefulSet", 3)
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
              "storageClassName": "fast"}  # fmt: skip
    document["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": wanted}]
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    fast = {"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "csi.example",
            "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
    answer = explain(replace(Subject.of(document), strict=True), World.of([*nodes(2), fast]), ALL_FEATURES)
    assert (answer.blockers, answer.replicas.placed) == ((), 3)
    soon = {**fast, "volumeBindingMode": "Immediate"}
    assert explain(Subject.of(document), World.of([*nodes(2), soon]), ALL_FEATURES).replicas.placed == 3
    by_hand = {**soon, "provisioner": "kubernetes.io/no-provisioner"}
    refused = explain(Subject.of(document), World.of([*nodes(2), by_hand]), ALL_FEATURES)
    assert [reason.message() for reason in refused.blockers] == [
        "pod has unbound immediate PersistentVolumeClaims"
    ]


# ── what the cluster itself says ──


def test_a_failure_to_create_pods_is_told_and_contradicts_the_verdict():
    message = 'pods "web-1-x" is forbidden: no PriorityClass with name high was found'
    event = {
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ReplicaSet", "name": "web-1", "namespace": "default"},
        "reason": "FailedCreate",
        "message": message,
        "count": 4,
    }
    answer = ask(workload(replicas=2), *nodes(2), *pods(0), event, in_cluster=True)
    assert answer.complete
    assert message in answer.observed.differs(answer.complete)
    assert ", 4 times" in answer.observed.says[0]


def test_a_condition_that_says_unschedulable_is_held_against_a_verdict_that_fits():
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}, "status": {"conditions": [condition]}}
    answer = explain(Subject.of(pod, stored=True), World.of([pod, *nodes(1)]), ALL_FEATURES)
    assert "PodScheduled (Unschedulable): 0/1 nodes" in answer.observed.differs(answer.complete)
