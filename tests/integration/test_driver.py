"""Simulated drivers at work in a whole cluster, under virtual time."""

from __future__ import annotations

import json

import pytest

from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.node_classes import NodeClass

GPU = "gpu.example.com"


def node_class(**devices):
    return NodeClass.read({"devices": devices}, "lab")


def slices(cluster, pool="node-0"):
    return [s for s in cluster.list("ResourceSlice") if s["spec"]["pool"]["name"] == pool]


def taints(cluster, device="gpu-0", pool="node-0"):
    found = [d for s in slices(cluster, pool) for d in s["spec"].get("devices", ()) if d["name"] == device]
    return [
        f"{t['key']}={t.get('value', '')}:{t['effect']}@{t['timeAdded'][11:19]}"
        for d in found
        for t in d.get("taints", ())
    ]


def annotate(cluster, node, device, *faults):
    text = json.dumps(list(faults))
    cluster.patch("Node", node, {"metadata": {"annotations": {f"faults.weir.dev/{device}": text}}})


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster


def test_nodes_with_devices_publish_them_and_a_class_to_ask_for_them(cluster):
    cluster.add_nodes(2, node_class="gpu")
    assert [len(s["spec"]["devices"]) for s in cluster.list("ResourceSlice")] == [8, 8]
    assert cluster.get("DeviceClass", GPU)["spec"]["selectors"] == [
        {"cel": {"expression": f"device.driver == '{GPU}'"}}
    ]


def test_devices_vanish_with_their_node(cluster):
    cluster.add_nodes(2, node_class="gpu")
    cluster.delete("Node", "node-0")
    cluster.advance(1)
    assert [s["spec"]["pool"]["name"] for s in cluster.list("ResourceSlice")] == ["node-1"]


def test_an_error_budget_runs_out_by_schedule(cluster):
    entry = {"device": "gpu-0", "taint": "budget=3:NoSchedule", "everySeconds": 60, "afterSeconds": 10}
    cluster.add_nodes(node_class=node_class(count=1, schedule=[entry]))
    seen = []
    for wait in (5, 10, 60, 60, 60, 600):
        cluster.advance(wait)
        seen.append([text.partition("@")[0] for text in taints(cluster)])
    assert seen == [
        [],
        *[[f"budget={hours}:NoSchedule"] for hours in (3, 2, 1, 0, 0)],
    ]


def test_a_fault_on_command_keeps_its_time_until_it_is_repaired(cluster):
    cluster.add_nodes(node_class=node_class(count=2))
    cluster.advance(60)
    annotate(cluster, "node-0", "gpu-0", {"taint": "hot:NoSchedule"})
    cluster.advance(60)
    annotate(cluster, "node-0", "gpu-1", {"taint": "hot:NoSchedule"})
    first, second = taints(cluster), taints(cluster, "gpu-1")
    cluster.patch("Node", "node-0", {"metadata": {"annotations": {"faults.weir.dev/gpu-0": None}}})
    assert (first, second, taints(cluster)) == (
        ["hot=:NoSchedule@00:01:00"],
        ["hot=:NoSchedule@00:02:00"],
        [],
    )


def test_a_fault_ends_by_itself(cluster):
    cluster.add_nodes(node_class=node_class(count=1))
    since = cluster.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    annotate(cluster, "node-0", "gpu-0", {"taint": "hot:NoSchedule", "forSeconds": 30, "since": since})
    during = taints(cluster)
    cluster.advance(31)
    assert (len(during), taints(cluster)) == (1, [])


def test_an_unplugged_device_raises_the_generation(cluster):
    cluster.add_nodes(node_class=node_class(count=2))
    annotate(cluster, "node-0", "gpu-1", {"unplugged": True})
    (found,) = slices(cluster)
    assert ([d["name"] for d in found["spec"]["devices"]], found["spec"]["pool"]["generation"]) == (
        ["gpu-0"],
        2,
    )


@pytest.mark.parametrize("form", ["inline", "separate"])
def test_a_restarted_driver_takes_over_what_is_there(cluster, form):
    cluster.add_nodes(node_class=node_class(count=2, taints=form))
    annotate(cluster, "node-0", "gpu-0", {"taint": "hot:NoSchedule"})
    before = slices(cluster)
    cluster.advance(60)
    cluster.set_gates(None)  # every component starts again
    cluster.advance(60)
    assert slices(cluster) == before


def test_what_somebody_deletes_or_changes_is_put_right(cluster):
    cluster.add_nodes(node_class=node_class(count=2))
    (found,) = slices(cluster)
    cluster.patch("ResourceSlice", found["metadata"]["name"], {"spec": {"devices": []}})
    (again,) = slices(cluster)
    cluster.delete("ResourceSlice", found["metadata"]["name"])
    (anew,) = slices(cluster)
    assert again["spec"]["devices"] == anew["spec"]["devices"] == found["spec"]["devices"]


def test_a_node_that_is_off_publishes_nothing_new(cluster):
    cluster.add_nodes(node_class=node_class(count=1))
    cluster.patch("Node", "node-0", {"metadata": {"annotations": {"weir.dev/failed": "true"}}})
    annotate(cluster, "node-0", "gpu-0", {"taint": "hot:NoSchedule"})
    off = taints(cluster)
    cluster.patch("Node", "node-0", {"metadata": {"annotations": {"weir.dev/failed": None}}})
    assert (off, len(taints(cluster))) == ([], 1)


def test_a_fabric_is_published_once_and_goes_with_the_last_node(cluster):
    cluster.add_nodes(2, node_class=node_class(profile="net", count=2))
    during = [(s["spec"]["pool"]["name"], s["spec"]["allNodes"]) for s in cluster.list("ResourceSlice")]
    cluster.delete("Node", "node-0")
    cluster.advance(1)
    still = len(cluster.list("ResourceSlice"))
    cluster.delete("Node", "node-1")
    cluster.advance(1)
    assert (during, still, cluster.list("ResourceSlice")) == ([("fabric", True)], 1, [])


def test_taints_that_the_server_drops_are_told_once_and_not_written_for_ever():
    with Cluster(gates={"apiserver": {"DRADeviceTaints": False, "DRADeviceTaintRules": False}}) as cluster:
        cluster.add_nodes(node_class=node_class(count=1))
        annotate(cluster, "node-0", "gpu-0", {"taint": "hot:NoSchedule"})
        (found,) = slices(cluster)
        cluster.advance(600)
        (event,) = cluster.events("DroppedFields")
        assert slices(cluster)[0]["metadata"]["generation"] == found["metadata"]["generation"]
        assert event["message"] == (
            'pool "node-0", slice #0: some fields were dropped by the apiserver, '
            "probably because these features are disabled: DRADeviceTaints"
        )


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("weir.dev/devices", "not json"),
        ("weir.dev/devices", '{"count": -5}'),
        ("weir.dev/devices", '{"driver": "no driver"}'),
        ("faults.weir.dev/gpu-0", "[7]"),
        ("faults.weir.dev/gpu-0", '[{"taint": "/:NoSchedule"}]'),
    ],
)
def test_what_cannot_be_published_is_told_on_the_node(cluster, annotation, text):
    cluster.add_nodes(node_class=node_class(count=1))
    cluster.patch("Node", "node-0", {"metadata": {"annotations": {annotation: text}}})
    cluster.advance(120)
    (event,) = cluster.events("InvalidDevices")
    assert event["involvedObject"]["name"] == "node-0" and event["type"] == "Warning"


def test_the_same_seed_gives_the_same_slices():
    def history():
        with Cluster(seed=7) as cluster:
            entry = {"device": "gpu-0", "taint": "budget=9:NoExecute", "everySeconds": 7}
            cluster.add_nodes(5, node_class=node_class(count=2, taints="separate", schedule=[entry]))
            cluster.advance(100)
            return cluster.history()

    assert history() == history()


def test_a_pod_starts_only_when_its_claim_is_reserved_for_it(cluster):
    cluster.add_nodes(node_class=node_class(count=1))
    request = {"name": "gpu", "exactly": {"deviceClassName": GPU}}
    claim = cluster.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        }
    )
    pod = cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "nodeName": "node-0",
                "containers": [{"name": "c", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
            },
        }
    )
    cluster.advance(3)
    waiting = cluster.get("Pod", "p")["status"]["phase"]
    (event,) = cluster.events("FailedPrepareDynamicResources")
    result = {"request": "gpu", "driver": GPU, "pool": "node-0", "device": "gpu-0"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}],
    }
    from weir.objects.kinds import by_kind

    cluster._do(
        cluster.client.patch(
            by_kind("resource.k8s.io/v1", "ResourceClaim"),
            "c",
            {"status": status},
            "default",
            subresource="status",
        )
    )
    cluster.advance(10)
    assert (waiting, event["message"], cluster.get("Pod", "p")["status"]["phase"]) == (
        "Pending",
        "Failed to prepare dynamic resources: prepare dynamic resources: pod p "
        f"({pod['metadata']['uid']}) is not allowed to use ResourceClaim c ({claim['metadata']['uid']})",
        "Running",
    )
