"""Claims and volumes find each other, and pods follow them (KEP-5721, story 4)."""

from __future__ import annotations

import pytest

from weir.cluster import Cluster


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


def test_a_volume_whose_claim_is_gone_is_released_or_deleted(cluster):
    cluster.apply(volume("kept"), claim("a"))
    cluster.advance(2)
    cluster.apply(volume("dropped", persistentVolumeReclaimPolicy="Delete"), claim("b"))
    cluster.advance(2)
    for name in ("a", "b"):
        cluster.delete("PersistentVolumeClaim", name)
    cluster.advance(5)
    assert phases(cluster) == {"kept": "Released"}


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
