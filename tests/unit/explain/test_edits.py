"""Changes for what other pods, ports, names and counts keep a pod from: found, proven, and as small as they can be."""

from __future__ import annotations

from typing import Any

import pytest

from weir.explain.fix import Fix
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.world import World

CONTAINER = {"name": "c", "image": "i"}


def node(name: str = "n1", zone: str = "a", **rest: Any) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "4Gi", "pods": "9"}
    metadata = {"name": name, "labels": {"zone": zone}}
    return {"kind": "Node", "metadata": metadata, "status": {"allocatable": room}, **rest}


def pod(name: str = "new", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": "web"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [CONTAINER], **spec},
    }


def fix(asked: dict[str, Any], *documents: dict[str, Any]) -> Fix:
    found = explain(asked, World.of(documents), ALL_FEATURES).fix
    assert found is not None
    return found


def said(found: Fix) -> list[str]:
    return [edit.say() for edit in found.edits]


def test_one_threshold_is_moved_rather_than_two_tolerations_added():
    taints = [{"key": "sla", "value": "950", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    above = [{"key": "sla", "operator": "Gt", "value": "960"}]
    found = fix(pod(tolerations=above), node(spec={"taints": taints}))
    assert said(found) == ["tolerate sla > 949 instead of > 960"]


def test_a_spread_constraint_is_relaxed_by_as_much_as_it_takes():
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    full = node("n2", "b", spec={"unschedulable": True})
    old = [pod(f"old-{number}", nodeName="n1") for number in range(2)]
    found = fix(pod(topologySpreadConstraints=[spread]), node(), full, *old)
    assert said(found) == ["allow maxSkew 3 instead of 1 over zone"]
    assert found.patch["spec"]["topologySpreadConstraints"][0]["maxSkew"] == 3


def test_a_host_port_that_is_taken_becomes_the_next_free_one():
    ported = {**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 80}]}
    holders = [
        pod(f"holder-{port}", nodeName="n1", containers=[{**CONTAINER, "ports": [{"hostPort": port}]}])
        for port in (80, 81)
    ]
    found = fix(pod(containers=[ported]), node(), *holders)
    assert said(found) == ["use host port 82 instead of 80/TCP"]


def test_on_the_hosts_network_the_container_port_changes_with_it():
    ported = {**CONTAINER, "ports": [{"containerPort": 80}]}
    holder = pod("holder", nodeName="n1", containers=[{**CONTAINER, "ports": [{"hostPort": 80}]}])
    found = fix(pod(containers=[ported], hostNetwork=True), node(), holder)
    assert found.patch["spec"]["containers"][0]["ports"] == [{"containerPort": 81}]


def test_a_request_is_dropped_only_where_nothing_else_helps():
    fpga = {**CONTAINER, "resources": {"limits": {"example.com/fpga": "1"}}}
    assert said(fix(pod(containers=[fpga]), node())) == ["no longer request example.com/fpga in c"]
    has = node(
        "n2", spec={"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]}
    )
    has["status"]["allocatable"]["example.com/fpga"] = "1"
    assert said(fix(pod(containers=[fpga]), node(), has)) == [
        "also tolerate a (NoSchedule)",
        "also tolerate b (NoExecute)",
    ]


def volume(claim: str) -> list[dict[str, Any]]:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]


def test_a_claim_with_a_near_name_is_proposed_for_one_that_does_not_exist():
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"volumeName": "d"},
             "status": {"phase": "Bound"}}  # fmt: skip
    disk = {"kind": "PersistentVolume", "metadata": {"name": "d"}}
    found = fix(pod(volumes=volume("dta")), node(), claim, disk)
    assert said(found) == ["use the claim data instead of dta, which does not exist"]


def test_a_missing_claim_can_be_made_where_there_is_a_default_class():
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    fast = {"kind": "StorageClass", "metadata": {"name": "fast", "annotations": marked},
            "provisioner": "csi.example", "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
    found = fix(pod(volumes=volume("data")), node(), fast)
    ((manifest, original),) = found.others
    assert original is None, "it has to be created"
    assert (manifest["kind"], manifest["spec"]["storageClassName"]) == ("PersistentVolumeClaim", "fast")


def test_a_runtime_class_that_does_not_exist_is_exchanged_for_the_near_one():
    sandbox = {"kind": "RuntimeClass", "metadata": {"name": "sandbox"}, "handler": "h"}
    found = fix(pod(runtimeClassName="sandboxed"), node(), sandbox)
    assert said(found) == ["set runtimeClassName sandbox instead of sandboxed, which does not exist"]


def test_a_priority_the_pod_made_up_is_removed():
    assert said(fix(pod(priority=5), node())) == ["remove priority: only admission sets it"]


# ── devices ──


def devices(count: int) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(count)],
        },
    }


def template(**asked: Any) -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **asked}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


GPU = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]


def test_fewer_devices_are_proposed_with_the_patch_of_the_template():
    found = fix(pod(resourceClaims=CLAIMS), node(), GPU, devices(2), template(count=4))
    assert "ask for 2 devices instead of 4" in said(found)[0]
    ((patch, original),) = found.others
    counts = [
        each["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] for each in (original, patch)
    ]
    assert counts == [4, 2]


@pytest.mark.parametrize("there, asked", [(4, 5), (15, 20), (1, 30)])
def test_only_as_many_devices_less_as_are_missing_are_proposed(there, asked):
    found = fix(pod(resourceClaims=CLAIMS), node(), GPU, devices(there), template(count=asked))
    (line,) = said(found)
    assert f" instead of {asked}" in line and f"ask for {there} device" in line
    assert found.alternatives == ()


def test_a_device_class_with_a_near_name_is_proposed():
    found = fix(pod(resourceClaims=CLAIMS), node(), GPU, devices(1), template(deviceClassName="gpus"))
    assert "name the device class gpu instead of gpus" in said(found)[0]


def test_a_threshold_is_moved_beside_an_entry_that_is_no_toleration():
    taint = {"key": "sla", "value": "800", "effect": "NoSchedule"}
    there = {**node(), "spec": {"taints": [taint]}}
    entries = [None, {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}]
    stored = Subject.of(pod(tolerations=entries), stored=True)
    answer = explain(stored, World.of([there]), ALL_FEATURES)
    assert answer.fix is not None
    moved = [edits for edits in answer.fix.alternatives if "tolerate sla > 799" in edits[0].say()]
    assert len(moved) == 1
