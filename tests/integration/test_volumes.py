"""Claims and volumes find each other, and pods follow them (KEP-5721, story 4)."""

from __future__ import annotations

import pytest

from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster

NFS = {"server": "files", "path": "/a"}
CSI = {"driver": "other.example.com", "volumeHandle": "h"}


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        cluster.add_nodes(name="old", labels={"kernel": "5.10.0"})
        cluster.add_nodes(name="new", labels={"kernel": "5.15.0"})
        cluster.advance(5)
        yield cluster


def volume(name, size="10Gi", **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": "/data"},
            **spec,
        },
    }


def claim(name="data", size="5Gi", **spec):
    resources = {"requests": {"storage": size}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": resources, **spec},
    }


def phases(cluster):
    return {v["metadata"]["name"]: v["status"]["phase"] for v in cluster.list("PersistentVolume")}


def test_a_claim_gets_the_smallest_volume_that_fits(cluster):
    cluster.apply(volume("large", "50Gi"), volume("right"), volume("small", "1Gi"), claim())
    cluster.advance(2)
    found = cluster.get("PersistentVolumeClaim", "data")
    assert (found["spec"]["volumeName"], found["status"]["phase"], phases(cluster)) == (
        "right",
        "Bound",
        {"large": "Available", "right": "Bound", "small": "Available"},
    )


def test_a_claim_waits_for_a_volume_that_comes_later(cluster):
    cluster.apply(claim())
    cluster.advance(2)
    before = cluster.get("PersistentVolumeClaim", "data")["status"]["phase"]
    cluster.apply(volume("late"))
    cluster.advance(2)
    assert (before, cluster.get("PersistentVolumeClaim", "data")["status"]["phase"]) == ("Pending", "Bound")


def test_two_claims_never_share_a_volume(cluster):
    cluster.apply(claim("a"), claim("b"), volume("only"))
    cluster.advance(5)
    bound = [
        c["metadata"]["name"]
        for c in cluster.list("PersistentVolumeClaim")
        if c["status"]["phase"] == "Bound"
    ]
    assert len(bound) == 1


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        ({"persistentVolumeReclaimPolicy": "Retain"}, "Released"),
        ({"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/tmp/data"}}, None),
        ({"persistentVolumeReclaimPolicy": "Delete"}, "Failed"),
        ({"persistentVolumeReclaimPolicy": "Delete", "hostPath": None, "nfs": NFS}, "Failed"),
        ({"persistentVolumeReclaimPolicy": "Delete", "hostPath": None, "csi": CSI}, "Released"),
    ],
)
def test_a_volume_whose_claim_is_gone_is_kept_removed_or_cannot_be_removed(cluster, spec, phase):
    cluster.apply(volume("v", **spec), claim("a"))
    cluster.advance(2)
    cluster.delete("PersistentVolumeClaim", "a")
    cluster.advance(5)
    assert phases(cluster).get("v") == phase


def test_a_pod_follows_its_volume_to_a_new_enough_kernel(cluster):
    term = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}
    cluster.apply(volume("fast", nodeAffinity={"required": {"nodeSelectorTerms": [term]}}), claim())
    cluster.advance(2)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    cluster.advance(5)
    assert cluster.get("Pod", "p")["spec"].get("nodeName") == "new-0"


def test_a_claim_that_a_pod_uses_stays_until_the_pod_is_gone(cluster):
    cluster.apply(volume("v"), claim())
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    cluster.advance(5)
    cluster.delete("PersistentVolumeClaim", "data")
    cluster.advance(5)
    used = cluster.get("PersistentVolumeClaim", "data")
    cluster.delete("Pod", "p")
    cluster.advance(10)
    assert (used is not None, cluster.get("PersistentVolumeClaim", "data")) == (True, None)


def events(cluster, name):
    return [(e["reason"], e["message"]) for e in cluster.events() if e["involvedObject"].get("name") == name]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, ("FailedBinding", "no persistent volumes available for this claim and no storage class is set")),
        (
            {"storageClassName": "none"},
            ("ProvisioningFailed", 'storageclass.storage.k8s.io "none" not found'),
        ),
        (
            {"volumeName": "tiny"},
            ("VolumeMismatch", 'Cannot bind to requested volume "tiny": requested PV is too small'),
        ),
        ({"volumeName": "taken"}, ("FailedBinding", 'volume "taken" already bound to a different claim.')),
    ],
)
def test_a_claim_that_waits_says_why_once(cluster, spec, told):
    cluster.apply(volume("tiny", "1Gi"), volume("taken", claimRef={"name": "other", "namespace": "default"}))
    cluster.apply(claim(**spec))
    cluster.advance(60)
    phase = cluster.get("PersistentVolumeClaim", "data")["status"]["phase"]
    assert (phase, events(cluster, "data")) == ("Pending", [told])


def test_a_claim_whose_volume_is_gone_is_lost(cluster):
    cluster.apply(volume("v"), claim())
    cluster.advance(2)
    cluster.patch("PersistentVolume", "v", {"metadata": {"finalizers": None}})
    cluster.delete("PersistentVolume", "v")
    cluster.advance(2)
    found = cluster.get("PersistentVolumeClaim", "data")["status"]
    assert (found["phase"], events(cluster, "data")[-1][0]) == ("Lost", "ClaimLost")


def test_a_claim_that_named_no_class_gets_the_default_one_when_there_is_one(cluster):
    for each in cluster.list("StorageClass"):
        cluster.delete("StorageClass", each["metadata"]["name"])
    asked = claim()
    del asked["spec"]["storageClassName"]
    cluster.apply(asked)
    cluster.advance(2)
    cluster.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "late",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "simulated.weir.dev",
        }
    )
    cluster.advance(2)
    found = cluster.get("PersistentVolumeClaim", "data")
    assert (found["spec"]["storageClassName"], found["status"]["phase"]) == ("late", "Bound")


def test_fewer_access_modes_go_before_less_room(cluster):
    many = ["ReadWriteOnce", "ReadOnlyMany"]
    cluster.apply(volume("many", "5Gi", accessModes=many), volume("one", "50Gi"), claim())
    cluster.advance(2)
    assert cluster.get("PersistentVolumeClaim", "data")["spec"]["volumeName"] == "one"


def test_a_claim_says_since_when_nobody_uses_it(cluster):
    def unused():
        found = cluster.get("PersistentVolumeClaim", "data")["status"].get("conditions") or ()
        return [(c["status"], c["reason"]) for c in found if c["type"] == "Unused"]

    cluster.apply(volume("v"), claim())
    cluster.advance(2)
    before = unused()
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    cluster.advance(5)
    during = unused()
    cluster.delete("Pod", "p")
    cluster.advance(10)
    free, used = [("True", "NoPodsUsingPVC")], [("False", "PodUsingPVC")]
    assert (before, during, unused()) == (free, used, free)


def test_an_ended_pod_still_holds_its_claim(cluster):
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, "restartPolicy": "Never"}
    cluster.apply(volume("v"), claim())
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    cluster.advance(30)
    ended = cluster.get("Pod", "p")["status"]["phase"]
    cluster.delete("PersistentVolumeClaim", "data")
    cluster.advance(5)
    held = cluster.get("PersistentVolumeClaim", "data") is not None
    cluster.delete("Pod", "p")
    cluster.advance(5)
    assert (ended, held, cluster.get("PersistentVolumeClaim", "data")) == ("Succeeded", True, None)


def test_a_volume_of_a_pods_own_comes_and_goes_with_it(cluster):
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    cluster.advance(5)
    made = [c["metadata"]["name"] for c in cluster.list("PersistentVolumeClaim")]
    phase = cluster.get("Pod", "p")["status"]["phase"]
    cluster.delete("Pod", "p")
    cluster.advance(10)
    left = [*cluster.list("PersistentVolumeClaim"), *cluster.list("PersistentVolume")]
    assert (made, phase, left) == (["p-scratch"], "Running", [])


def attributes_class(name):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": {"name": name},
        "driverName": "csi.example.com",
        "parameters": {"iops": "100"},
    }


def volume_of_class(name, attributes):
    made = volume(name, volumeAttributesClassName=attributes)
    del made["spec"]["hostPath"]
    made["spec"]["csi"] = {"driver": "csi.example.com", "volumeHandle": name}
    return made


def test_a_claim_says_which_attributes_its_volume_came_with(cluster):
    cluster.apply(volume_of_class("one", "gold"), claim(volumeAttributesClassName="gold"))
    cluster.advance(5)
    assert (
        cluster.get("PersistentVolumeClaim", "data")["status"]["currentVolumeAttributesClassName"] == "gold"
    )
    cluster.patch("PersistentVolumeClaim", "data", {"spec": {"volumeAttributesClassName": "silver"}})
    cluster.advance(5)
    status = cluster.get("PersistentVolumeClaim", "data")["status"]
    assert (status["phase"], status["currentVolumeAttributesClassName"]) == ("Bound", "gold")


def test_a_class_of_attributes_goes_when_nothing_uses_it(cluster):
    cluster.apply(attributes_class("gold"), attributes_class("silver"), volume_of_class("one", "gold"))
    cluster.advance(1)
    for name in ("gold", "silver"):
        cluster.delete("VolumeAttributesClass", name, "")
    cluster.advance(5)
    assert cluster.get("VolumeAttributesClass", "silver", "") is None
    assert cluster.get("VolumeAttributesClass", "gold", "") is not None
    cluster.delete("PersistentVolume", "one", "")
    cluster.advance(5)
    assert cluster.get("VolumeAttributesClass", "gold", "") is None


def test_a_quota_follows_the_class_that_a_claim_has(cluster):
    expression = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    spec = {"hard": {"persistentvolumeclaims": "5"}, "scopeSelector": {"matchExpressions": [expression]}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    cluster.apply(quota, volume_of_class("one", "gold"), claim(volumeAttributesClassName="gold"))
    seen = []
    for change, subresource in (
        ({}, ""),
        ({"spec": {"volumeAttributesClassName": "silver"}}, ""),
        ({"status": {"currentVolumeAttributesClassName": "silver"}}, "status"),
    ):
        if change:
            patch = cluster.client.patch(
                by_kind("v1", "PersistentVolumeClaim"), "data", change, "default", subresource=subresource
            )
            cluster._do(patch)
        cluster.advance(5)
        seen.append(cluster.get("ResourceQuota", "q")["status"]["used"]["persistentvolumeclaims"])
    assert seen == ["1", "1", "0"]
