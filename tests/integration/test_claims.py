"""Pods with claims in a whole cluster under virtual time: claim controller, scheduler and kubelets together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from weir.simulation.cluster import Cluster

Document = dict[str, Any]
GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def slice_of(node: str, *devices: Document, **spec: Any) -> Document:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": GROUP,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices), **spec},
    }


def gpus(count: int) -> list[Document]:
    return [{"name": f"gpu-{n}", "attributes": {"index": {"int": n}}} for n in range(count)]


DEVICE_CLASS = {
    "apiVersion": GROUP,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


def requests(**more: Any) -> Document:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **more}}]}}


def claim(name: str, **more: Any) -> Document:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": metadata, "spec": requests(**more)}


TEMPLATE = {
    "apiVersion": GROUP,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"spec": requests()},
}


def pod(name: str, **uses: Any) -> Document:
    claims = [{"name": "g", **uses}] if uses else []
    resources = {"claims": [{"name": "g"}]} if uses else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            "resourceClaims": claims,
        },
    }


def rule(name: str, selector: Document, effect: str, **more: Any) -> Document:
    taint = {"key": "bad", "effect": effect, **more}
    spec = {"deviceSelector": selector, "taint": taint}
    return {"apiVersion": GROUP, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as found:
        found.apply(DEVICE_CLASS, TEMPLATE, slice_of("node-0", *gpus(2)), slice_of("node-1", *gpus(2)))
        yield found


def node_of(cluster: Cluster, name: str) -> str | None:
    found = cluster.get("Pod", name)
    assert found is not None
    node: str | None = found["spec"].get("nodeName")
    return node


def scheduled(cluster: Cluster, name: str) -> Document:
    found = cluster.get("Pod", name)
    assert found is not None
    condition: Document = next(c for c in found["status"]["conditions"] if c["type"] == "PodScheduled")
    return condition


def devices(cluster: Cluster) -> list[tuple[str, str]]:
    """Return every allocated device, once for each claim that has it."""
    return sorted(
        (result["pool"], result["device"])
        for each in cluster.list("ResourceClaim")
        for result in each.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    )


def test_pods_from_a_template_get_a_device_each_and_the_last_waits_for_one(cluster: Cluster) -> None:
    for number in range(5):
        cluster.create(pod(f"p{number}", resourceClaimTemplateName="one"))
    cluster.advance(2)
    assert devices(cluster) == [(f"node-{n}", f"gpu-{d}") for n in range(2) for d in range(2)]
    assert scheduled(cluster, "p4")["message"] == (
        "0/2 nodes are available: 2 cannot allocate all claims. "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    cluster.delete("Pod", "p0")
    cluster.advance(60)
    assert node_of(cluster, "p4")


@pytest.mark.proves("5055-116")
def test_a_no_schedule_taint_lets_a_pod_start_that_did_not_come_by_the_scheduler(cluster: Cluster) -> None:
    cluster.create(claim("c"))
    cluster.create(pod("first", resourceClaimName="c"))
    cluster.advance(2)
    cluster.create(rule("r", {}, "NoSchedule"))
    cluster.advance(2)
    direct = pod("direct", resourceClaimName="c")
    direct["spec"]["nodeName"] = node_of(cluster, "first")
    cluster.create(direct)
    cluster.advance(10)
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in cluster.list("Pod")}
    assert phases == {"first": "Running", "direct": "Running"}
    (found,) = cluster.list("ResourceClaim")
    assert sorted(each["name"] for each in found["status"]["reservedFor"]) == ["direct", "first"]


def test_what_is_written_is_what_kubernetes_writes(cluster: Cluster) -> None:
    cluster.create(claim("c", tolerations=[{"key": "bad", "operator": "Exists", "effect": "NoExecute"}]))
    made = cluster.create(pod("p", resourceClaimName="c"))
    cluster.advance(1)
    found = cluster.get("ResourceClaim", "c")
    assert found is not None
    node = node_of(cluster, "p")
    assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert [
        (each["manager"], each.get("subresource"), sorted(each["fieldsV1"]))
        for each in found["metadata"]["managedFields"]
        if each["manager"] != "weir"
    ] == [("kube-scheduler", None, ["f:metadata"]), ("kube-scheduler", "status", ["f:status"])]
    stamp = found["status"]["allocation"].pop("allocationTimestamp")
    assert stamp.endswith("Z")
    assert found["status"] == {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "r",
                        "driver": DRIVER,
                        "pool": node,
                        "device": "gpu-0",
                        "tolerations": [{"key": "bad", "operator": "Exists", "effect": "NoExecute"}],
                    }
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": made["metadata"]["uid"]}],
    }


def test_a_pod_waits_for_its_claim_without_being_tried(cluster: Cluster) -> None:
    cluster.create(pod("p", resourceClaimName="c"))
    cluster.advance(30)
    assert not cluster.events("FailedScheduling")
    cluster.create(claim("c"))
    cluster.advance(1)
    assert node_of(cluster, "p")


def test_a_class_that_is_missing_is_named_and_wakes_the_pod_when_it_comes(cluster: Cluster) -> None:
    cluster.create(claim("c", deviceClassName="late"))
    cluster.create(pod("p", resourceClaimName="c"))
    cluster.advance(1)
    assert scheduled(cluster, "p")["message"] == (
        "0/2 nodes are available: request r: device class late does not exist. "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    cluster.apply({**DEVICE_CLASS, "metadata": {"name": "late"}})
    cluster.advance(15)
    assert node_of(cluster, "p")


def test_a_rule_that_goes_away_lets_waiting_pods_in(cluster: Cluster) -> None:
    cluster.create(rule("closed", {}, "NoSchedule"))
    cluster.create(pod("p", resourceClaimTemplateName="one"))
    cluster.advance(20)
    assert node_of(cluster, "p") is None
    cluster.delete("DeviceTaintRule", "closed")
    cluster.advance(15)
    assert node_of(cluster, "p")


def test_a_second_pod_does_not_join_a_claim_whose_pods_have_to_leave(cluster: Cluster) -> None:
    cluster.create(claim("shared"))
    cluster.create(pod("first", resourceClaimName="shared"))
    cluster.advance(5)
    node = node_of(cluster, "first")
    cluster.plane.controllers
    cluster.create(rule("broken", {"pool": node}, "NoExecute"))
    cluster.create(pod("second", resourceClaimName="shared"))
    assert scheduled(cluster, "second")["message"].startswith(
        "0/2 nodes are available: 2 resourceclaim has allocated devices with untolerated taints."
    )


def test_an_idle_claim_on_a_tainted_device_is_freed_and_allocated_elsewhere(cluster: Cluster) -> None:
    cluster.create(claim("c"))
    allocated = {
        "allocation": {
            "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "node-0", "device": "gpu-0"}]}
        }
    }
    cluster._do(cluster.client.patch(_claims(), "c", {"status": allocated}, "default", subresource="status"))
    cluster.create(rule("broken", {"pool": "node-0"}, "NoExecute"))
    cluster.create(pod("p", resourceClaimName="c"))
    cluster.advance(1)
    assert [each["message"] for each in cluster.events("FailedScheduling")][:1] == [
        "0/2 nodes are available: 2 resourceclaim has allocated devices with untolerated taints. deallocation of "
        "ResourceClaim completed, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    ]
    cluster.advance(15)
    assert (node_of(cluster, "p"), devices(cluster)) == ("node-1", [("node-1", "gpu-0")])


def _claims() -> Any:
    from weir.objects.kinds import by_kind

    return by_kind(GROUP, "ResourceClaim")


def test_a_selector_that_fails_is_told_as_an_error(cluster: Cluster) -> None:
    fails = [{"cel": {"expression": f"device.attributes['{DRIVER}'].none == 1"}}]
    cluster.create(claim("c", selectors=fails))
    cluster.create(pod("p", resourceClaimName="c"))
    condition = scheduled(cluster, "p")
    assert condition["reason"] == "SchedulerError"
    assert condition["message"].startswith(
        'running "DynamicResources" filter plugin: claim default/c: selector #0 on device '
    )


def test_a_rule_whose_selector_fails_is_told_to_its_author(cluster: Cluster) -> None:
    fails = [{"cel": {"expression": f"device.attributes['{DRIVER}'].none == 1"}}]
    cluster.create(rule("odd", {"selectors": fails}, "NoSchedule"))
    cluster.advance(5)
    told = [each for each in cluster.events("CELRuntimeError") if each["involvedObject"]["name"] == "odd"]
    assert told[0]["message"].startswith("selector #0: runtime error: no such key: none")
    cluster.create(pod("p", resourceClaimTemplateName="one"))
    cluster.advance(1)
    assert node_of(cluster, "p"), "a rule that fails taints nothing"


def test_pods_wait_until_a_device_is_attached(cluster: Cluster) -> None:
    waits = [{"name": "far", "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}]
    for node in ("node-0", "node-1"):
        cluster.apply(slice_of(node, *waits))
    cluster.create(claim("c"))
    cluster.create(pod("p", resourceClaimName="c"))
    cluster.advance(20)
    assert node_of(cluster, "p") is None
    assert [each["message"][:30] for each in cluster.events("BindingConditionsPending")] == [
        "waiting for binding conditions"
    ]
    found = cluster.get("ResourceClaim", "c")
    assert found is not None
    (result,) = found["status"]["allocation"]["devices"]["results"]
    stamp = "2026-01-01T00:00:00Z"
    condition = {
        "type": "attached",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": stamp,
    }
    status = {
        "devices": [{**{k: result[k] for k in ("driver", "pool", "device")}, "conditions": [condition]}]
    }
    cluster._do(cluster.client.patch(_claims(), "c", {"status": status}, "default", subresource="status"))
    cluster.advance(1)
    assert node_of(cluster, "p")


def far_device(cluster: Cluster, *near: Document) -> Document:
    """Let a pod get a device that waits to be attached, beside *near*; return the device's place."""
    waits = {"name": "far", "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    for node in ("node-0", "node-1"):
        cluster.apply(slice_of(node, waits, *near))
    cluster.create(claim("c", count=1 + len(near)))
    cluster.create(pod("p", resourceClaimName="c"))
    cluster.advance(20)
    found = cluster.get("ResourceClaim", "c")
    assert found is not None
    results = found["status"]["allocation"]["devices"]["results"]
    (result,) = (each for each in results if each["device"] == "far")
    return {k: result[k] for k in ("driver", "pool", "device")}


def say_of_device(cluster: Cluster, device: Document, condition: str) -> None:
    stamp = {"reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    said = [{"type": condition, "status": "True", **stamp}]
    status = {"devices": [{**device, "conditions": said}]}
    cluster._do(cluster.client.patch(_claims(), "c", {"status": status}, "default", subresource="status"))


def waits_counted(cluster: Cluster, outcome: str) -> tuple[float, int]:
    """Return how many devices with conditions, and how many devices at all, were waited for."""
    metrics, labels = cluster.plane.scheduler.metrics, ("default-scheduler", DRIVER, outcome)
    return metrics.conditions_allocations.child(*labels).value, metrics.conditions_duration.child(
        *labels
    ).count


@pytest.mark.parametrize(("condition", "outcome"), [("attached", "success"), ("broken", "failure")])
def test_waiting_for_a_device_is_counted_with_its_outcome(
    cluster: Cluster, condition: str, outcome: str
) -> None:
    device = far_device(cluster, {"name": "near"})
    say_of_device(cluster, device, condition)
    cluster.advance(1)
    assert waits_counted(cluster, outcome) == (1, 2)


def test_how_long_a_device_was_waited_for_is_told(cluster: Cluster) -> None:
    say_of_device(cluster, far_device(cluster), "attached")
    cluster.advance(1)
    waited = cluster.plane.scheduler.metrics.conditions_duration.child("default-scheduler", DRIVER, "success")
    assert 19 < waited.sum < 21


def test_a_device_that_never_gets_ready_is_counted_as_a_timeout(cluster: Cluster) -> None:
    far_device(cluster)
    cluster.advance(620)
    assert waits_counted(cluster, "timeout") == (1, 1)


def test_a_claim_that_vanishes_while_its_device_is_waited_for_is_counted_as_an_error(
    cluster: Cluster,
) -> None:
    far_device(cluster)
    cluster.delete("ResourceClaim", "c")
    finalizers = {"metadata": {"finalizers": None}}
    cluster._do(cluster.client.patch(_claims(), "c", finalizers, "default"))
    cluster.advance(1)
    assert waits_counted(cluster, "error") == (1, 1)


def test_a_driver_that_never_rests_does_not_hold_up_pods_without_claims(cluster: Cluster) -> None:
    for number in range(8):
        cluster.create(pod(f"waiting-{number}", resourceClaimTemplateName="one"))
    for number in range(100):
        hot = [{"key": "hot", "value": str(number), "effect": "NoSchedule"}]
        cluster.apply(slice_of("node-0", *({**each, "taints": hot} for each in gpus(2))))
        cluster.create(pod(f"plain-{number}"))
        cluster.advance(0.02)
        assert node_of(cluster, f"plain-{number}")


def test_with_the_feature_off_in_the_scheduler_claims_are_nobodys_business() -> None:
    off = "DynamicResourceAllocation=false"
    with Cluster(nodes=1, gates={"scheduler": off}) as cluster:
        cluster.create(pod("p", resourceClaimName="missing"))
        cluster.advance(1)
        assert node_of(cluster, "p") == "node-0"


def test_a_server_without_device_kinds_does_not_hold_up_pods_without_claims() -> None:
    off = "DynamicResourceAllocation=false"
    with Cluster(nodes=1, gates={"apiserver": off}) as cluster:
        cluster.create(pod("p"))
        cluster.advance(1)
        assert node_of(cluster, "p") == "node-0"


def test_a_pod_that_asks_for_an_extended_resource_gets_a_claim_of_its_own(cluster: Cluster) -> None:
    offers = {**DEVICE_CLASS["spec"], "extendedResourceName": "example.com/gpu"}
    cluster.apply({**DEVICE_CLASS, "spec": offers})
    wanted = pod("p")
    wanted["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "2"}}
    made = cluster.create(wanted)
    cluster.advance(5)
    found = cluster.get("Pod", "p")
    assert found is not None
    status = found["status"]["extendedResourceClaimStatus"]
    assert status["requestMappings"] == [
        {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    ]
    special = cluster.get("ResourceClaim", status["resourceClaimName"])
    assert special is not None
    assert special["metadata"]["generateName"] == "p-extended-resources-"
    assert special["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert special["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert [result["device"] for result in special["status"]["allocation"]["devices"]["results"]] == [
        "gpu-0",
        "gpu-1",
    ]
    assert [each["name"] for each in special["status"]["reservedFor"]] == ["p"]
    assert found["status"]["phase"] == "Running"


@pytest.mark.parametrize(("room", "outcome"), [("9", "success"), ("0", "failure")])
def test_claims_made_for_extended_resources_are_counted(cluster: Cluster, room: str, outcome: str) -> None:
    offers = {**DEVICE_CLASS["spec"], "extendedResourceName": "example.com/gpu"}
    cluster.apply({**DEVICE_CLASS, "spec": offers})
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    cluster.create({**quota, "spec": {"hard": {"count/resourceclaims.resource.k8s.io": room}}})
    cluster.advance(1)
    wanted = pod("p")
    wanted["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "2"}}
    cluster.create(wanted)
    cluster.advance(0.5)
    assert cluster.plane.scheduler.metrics.claim_creates.child(outcome, "false", "", "Pod").value == 1


def test_the_claim_for_extended_resources_goes_with_its_pod(cluster: Cluster) -> None:
    offers = {**DEVICE_CLASS["spec"], "extendedResourceName": "example.com/gpu"}
    cluster.apply({**DEVICE_CLASS, "spec": offers})
    for name in ("first", "second", "third"):
        wanted = pod(name)
        wanted["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "2"}}
        cluster.create(wanted)
    cluster.advance(5)
    assert node_of(cluster, "third") is None
    cluster.delete("Pod", "first")
    cluster.advance(60)
    assert node_of(cluster, "third")
    assert len(cluster.list("ResourceClaim")) == 2
