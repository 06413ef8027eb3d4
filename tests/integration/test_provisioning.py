"""Volumes made on demand by weir's own provisioner, in a whole cluster under virtual time."""

from __future__ import annotations

import pytest

from tests.integration.test_statefulset import database
from tests.integration.test_volumes import claim
from weir.simulation.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster(nodes=2) as cluster:
        cluster.advance(5)
        yield cluster


def storage_class(name="fast", mode="Immediate", **more):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "simulated.weir.dev",
        "volumeBindingMode": mode,
        **more,
    }


def user(name="user", claim_name="data"):
    source = {"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [source]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def state(cluster, name="data"):
    found = cluster.get("PersistentVolumeClaim", name)
    volume = cluster.get("PersistentVolume", found["spec"].get("volumeName") or "none")
    return found["status"]["phase"], volume and volume["spec"]["capacity"]["storage"]


def test_an_immediate_claim_gets_a_volume_of_its_size(cluster):
    cluster.apply(storage_class(), claim(storageClassName="fast"))
    cluster.advance(2)
    reasons = {
        e["reason"] for e in cluster.events() if e["involvedObject"]["kind"] == "PersistentVolumeClaim"
    }
    assert (state(cluster), reasons) == (("Bound", "5Gi"), {"ExternalProvisioning", "ProvisioningSucceeded"})


def test_a_claim_that_waits_for_its_consumer_gets_one_where_the_pod_goes(cluster):
    parameters = {"topologyKey": "kubernetes.io/hostname"}
    cluster.apply(
        storage_class(mode="WaitForFirstConsumer", parameters=parameters), claim(storageClassName="fast")
    )
    cluster.advance(10)
    before = state(cluster)
    cluster.apply(user())
    cluster.advance(10)
    pod = cluster.get("Pod", "user")
    volume = cluster.get(
        "PersistentVolume", cluster.get("PersistentVolumeClaim", "data")["spec"]["volumeName"]
    )
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert (before, state(cluster), pod["status"]["phase"], term["matchExpressions"][0]["values"]) == (
        ("Pending", None),
        ("Bound", "5Gi"),
        "Running",
        [pod["spec"]["nodeName"]],
    )


@pytest.mark.parametrize("policy, left", [("Delete", 0), ("Retain", 1)])
def test_a_volume_goes_with_its_claim_where_the_class_says_so(cluster, policy, left):
    cluster.apply(storage_class(reclaimPolicy=policy), claim(storageClassName="fast"))
    cluster.advance(5)
    cluster.delete("PersistentVolumeClaim", "data")
    cluster.advance(10)
    assert len(cluster.list("PersistentVolume")) == left


def test_a_class_of_somebody_else_is_left_to_it(cluster):
    cluster.apply(storage_class(provisioner="example.com/disk"), claim(storageClassName="fast"))
    cluster.advance(30)
    marks = cluster.get("PersistentVolumeClaim", "data")["metadata"]["annotations"]
    assert (state(cluster), marks["volume.kubernetes.io/storage-provisioner"]) == (
        ("Pending", None),
        "example.com/disk",
    )


def test_a_node_without_the_label_is_given_up(cluster):
    parameters = {"topologyKey": "rack"}
    cluster.apply(
        storage_class(mode="WaitForFirstConsumer", parameters=parameters),
        claim(storageClassName="fast"),
        user(),
    )
    cluster.advance(5)
    assert cluster.events("ProvisioningFailed")


def template(name="data"):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def test_a_statefulset_with_claims_runs_and_finds_its_volumes_again(cluster):
    cluster.apply(database(3, volumeClaimTemplates=[template()]))
    cluster.advance(60)
    running = sorted(p["metadata"]["name"] for p in cluster.list("Pod") if p["status"]["phase"] == "Running")
    bound = {c["metadata"]["name"]: c["spec"]["volumeName"] for c in cluster.list("PersistentVolumeClaim")}
    cluster.delete("Pod", "db-1")
    cluster.advance(20)
    again = {c["metadata"]["name"]: c["spec"]["volumeName"] for c in cluster.list("PersistentVolumeClaim")}
    assert (running, sorted(bound), again) == (
        ["db-0", "db-1", "db-2"],
        ["data-db-0", "data-db-1", "data-db-2"],
        bound,
    )


def test_claims_go_with_the_set_or_with_pods_scaled_away_where_it_says_so(cluster):
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    cluster.apply(database(2, volumeClaimTemplates=[template()], persistentVolumeClaimRetentionPolicy=policy))
    cluster.advance(60)
    cluster.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
    cluster.advance(60)
    scaled = [c["metadata"]["name"] for c in cluster.list("PersistentVolumeClaim")]
    cluster.delete("StatefulSet", "db")
    cluster.advance(60)
    assert (scaled, cluster.list("PersistentVolumeClaim"), cluster.list("PersistentVolume")) == (
        ["data-db-0"],
        [],
        [],
    )
