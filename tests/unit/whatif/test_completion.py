"""What a dump leaves out, put back: what kubelets say, room on nodes, owners, loads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from weir.simulation.kubelet.node_classes import FAILED
from weir.whatif.completion import Completed, complete

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
THEN = "2026-01-01T12:00:00Z"


def pod(
    name: str = "p", on: str = "a", *, owners: Any = (), status: Any = None, **spec: Any
) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": list(owners)},
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": "Running"} if status is None else status,
    }


def node(name: str = "a", **status: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def found(completed: Completed, kind: str, name: str) -> dict[str, Any]:
    (only,) = [e for e in completed.documents if (e["kind"], e["metadata"]["name"]) == (kind, name)]
    return only


def completed_pod(document: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    return found(complete([document, *others], NOW), "Pod", document["metadata"]["name"])


# ── pods ──


def test_a_pod_that_runs_says_so_as_its_kubelet_would():
    status = completed_pod(pod())["status"]
    assert (status["phase"], status["startTime"], status["podIP"]) == ("Running", THEN, "10.0.0.1")
    assert [(c["type"], c["status"], c["lastTransitionTime"]) for c in status["conditions"]] == [
        ("Initialized", "True", THEN),
        ("Ready", "True", THEN),
        ("ContainersReady", "True", THEN),
        ("PodScheduled", "True", THEN),
    ]
    assert status["containerStatuses"] == [
        {
            "restartCount": 0,
            "imageID": "",
            "name": "c",
            "image": "i",
            "state": {"running": {"startedAt": THEN}},
            "ready": True,
            "started": True,
        }
    ]


@pytest.mark.parametrize(
    "on, status",
    [("", {}), ("", {"phase": "Running"}), ("a", {"phase": "Pending"}), ("a", {"phase": "Failed"})],
)
def test_a_pod_that_does_not_run_says_nothing_new(on, status):
    said = completed_pod(pod(on=on, status=status))["status"]
    assert said["phase"] == (status.get("phase") or "Pending")
    assert not {"podIP", "startTime", "containerStatuses"} & set(said)


def test_what_a_pod_says_of_itself_is_kept():
    before = {
        "phase": "Running",
        "startTime": "2025-01-01T00:00:00Z",
        "podIP": "10.9.9.9",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "x"}}, "ready": False, "restartCount": 4}
        ],
    }
    after = completed_pod(pod(status=before))["status"]
    assert {name: after[name] for name in ("phase", "startTime", "podIP")} == {
        "phase": "Running",
        "startTime": "2025-01-01T00:00:00Z",
        "podIP": "10.9.9.9",
    }
    assert [(c["type"], c["status"]) for c in after["conditions"]] == [("Ready", "False")]
    (container,) = after["containerStatuses"]
    assert (container["state"], container["ready"]) == ({"waiting": {"reason": "x"}}, False)


def test_what_a_pod_leaves_out_is_added_to_what_it_says():
    before = {
        "phase": "Running",
        "conditions": [{"type": "Special", "status": "True"}],
        "containerStatuses": [{"name": "c", "restartCount": 4, "ready": False}, {"name": "gone"}],
    }
    after = completed_pod(pod(status=before))["status"]
    assert [c["type"] for c in after["conditions"]][:3] == ["Special", "Initialized", "Ready"]
    (container,) = after["containerStatuses"]
    assert (container["restartCount"], container["ready"]) == (4, True)


def reference(**more: Any) -> dict[str, Any]:
    return {"kind": "ReplicaSet", "name": "web", "controller": True, **more}


def test_an_entry_of_an_owner_gets_its_version_and_the_uid_of_the_owner_that_is_there():
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}},
    }
    there = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "uid": "u"},
        "spec": spec,
    }
    (entry,) = completed_pod(pod(owners=[reference()]), there)["metadata"]["ownerReferences"]
    assert (entry["apiVersion"], entry["uid"]) == ("apps/v1", "u")


def test_an_entry_of_an_owner_that_is_not_there_gets_a_uid_of_its_name():
    (entry,) = completed_pod(pod(owners=[reference()]))["metadata"]["ownerReferences"]
    assert (entry["apiVersion"], entry["uid"]) == ("apps/v1", "replicaset/default/web")


def test_an_entry_of_an_owner_keeps_what_it_says():
    said = reference(apiVersion="x/v1", uid="mine")
    (entry,) = completed_pod(pod(owners=[said]))["metadata"]["ownerReferences"]
    assert (entry["apiVersion"], entry["uid"]) == ("x/v1", "mine")
    (other,) = completed_pod(pod(owners=[{"kind": "Rollout", "name": "r", "uid": "x"}]))["metadata"][
        "ownerReferences"
    ]
    assert other["apiVersion"] == "v1"


# ── devices ──

CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
DEVICES = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
NO_DEVICES = "devices: none were collected"


def test_where_no_devices_were_collected_nobody_asks_for_any():
    labels = {"a": "b"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}], **CLAIM},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    completed = complete([pod(**CLAIM), workload, node()], NOW)
    assert "resourceClaims" not in found(completed, "Pod", "p")["spec"]
    assert "resourceClaims" not in found(completed, "Deployment", "d")["spec"]["template"]["spec"]
    assert NO_DEVICES in completed.notes


def test_where_devices_were_collected_pods_ask_as_they_do():
    completed = complete([pod(**CLAIM), DEVICES], NOW)
    assert found(completed, "Pod", "p")["spec"]["resourceClaims"] == CLAIM["resourceClaims"]
    assert NO_DEVICES not in completed.notes


def test_nobody_asking_is_no_news():
    assert NO_DEVICES not in complete([pod(), node()], NOW).notes


# ── nodes ──

ROOM = "how much room 1 node without allocatable would have"


def test_a_node_that_does_not_say_what_it_has_has_plenty_of_all_that_is_asked_for():
    def asks(resource: str) -> dict[str, Any]:
        return {"name": resource[0], "image": "i", "resources": {"requests": {resource: "1"}}}

    asking = pod(
        containers=[asks("fpga.example.com"), {"name": "c", "image": "i"}],
        initContainers=[asks("gpu.example.com")],
    )
    completed = complete([asking, node()], NOW)
    has = found(completed, "Node", "a")["status"]["allocatable"]
    assert has == {
        "fpga.example.com": str(2**40),
        "gpu.example.com": str(2**40),
        "cpu": str(2**30),
        "memory": str(2**50),
        "ephemeral-storage": str(2**50),
        "pods": str(2**30),
    }
    assert completed.notes == [ROOM]


@pytest.mark.parametrize(
    "status, has",
    [
        ({"allocatable": {"cpu": "2"}}, {"cpu": "2", "pods": str(2**30)}),
        ({"capacity": {"cpu": "3"}}, {"cpu": "3", "pods": str(2**30)}),
        ({"allocatable": {"cpu": "2", "pods": "9"}}, {"cpu": "2", "pods": "9"}),
    ],
)
def test_a_node_that_says_what_it_has_only_gets_room_for_pods(status, has):
    completed = complete([node(**status)], NOW)
    assert (found(completed, "Node", "a")["status"]["allocatable"], completed.notes) == (has, [])


@pytest.mark.parametrize(
    "type, status, silent",
    [("Ready", "Unknown", True), ("Ready", "False", False), ("Disk", "Unknown", False)],
)
def test_a_node_that_fell_silent_stays_silent(type, status, silent):
    before = node(conditions=[{"type": type, "status": status}])
    before["metadata"]["annotations"] = {"mine": "1"}
    annotations = found(complete([before], NOW), "Node", "a")["metadata"]["annotations"]
    assert (annotations["mine"], annotations.get(FAILED)) == ("1", "silent" if silent else None)


# ── loads ──


def scaled(current: Any, replicas: Any = 3, **target: Any) -> list[dict[str, Any]]:
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", **target}
    status = {
        "currentReplicas": replicas,
        "currentMetrics": [{"type": "Pods"}, {"type": "Resource", "resource": current}],
    }
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {"scaleTargetRef": reference, "maxReplicas": 9},
            "status": status,
        },
    ]


def loads(documents: list[dict[str, Any]]) -> dict[str, str]:
    annotations = found(complete(documents, NOW), "Deployment", "web")["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name.endswith("-load")}


@pytest.mark.parametrize(
    "current, replicas, load",
    [
        ({"name": "cpu", "current": {"averageValue": "250m"}}, 3, {"weir.dev/cpu-load": "750m"}),
        ({"name": "cpu", "current": {"averageValue": "2"}}, 4, {"weir.dev/cpu-load": "8"}),
        ({"name": "memory", "current": {"averageValue": "1k"}}, 2, {"weir.dev/memory-load": "2k"}),
        ({"name": "cpu", "current": {"averageValue": "2"}}, 0, {"weir.dev/cpu-load": "0"}),
        ({"name": "disk", "current": {"averageValue": "2"}}, 2, {}),
        ({"name": "cpu", "current": {"averageUtilization": 50}}, 2, {}),
        ({"name": "cpu"}, 2, {}),
    ],
)
def test_the_pods_of_an_autoscaler_use_together_what_it_measured(current, replicas, load):
    assert loads(scaled(current, replicas)) == load


def test_a_load_that_is_said_is_kept():
    documents = scaled({"name": "cpu", "current": {"averageValue": "1"}})
    documents[0]["metadata"]["annotations"] = {"weir.dev/cpu-load": "9"}
    assert loads(documents) == {"weir.dev/cpu-load": "9"}


@pytest.mark.parametrize("other", [{"name": "db"}, {"kind": "ReplicaSet"}])
def test_an_autoscaler_of_something_that_is_not_there_loads_nothing(other):
    assert loads(scaled({"name": "cpu", "current": {"averageValue": "1"}}, **other)) == {}


def test_what_each_pod_names_and_its_owner_are_there_in_the_end():
    completed = complete([{"kind": "List", "items": [pod(owners=[reference()]), node()]}], NOW)
    kinds = {each["kind"] for each in completed.documents}
    assert kinds == {"Pod", "Node", "Namespace", "ServiceAccount", "ReplicaSet"}


def test_sets_are_there_with_their_revisions():
    daemon = {"kind": "DaemonSet", "name": "web", "controller": True}
    labelled = pod(owners=[daemon])
    labelled["metadata"]["labels"] = {"controller-revision-hash": "abc"}
    assert found(complete([labelled], NOW), "ControllerRevision", "web-abc")["revision"] == 1
