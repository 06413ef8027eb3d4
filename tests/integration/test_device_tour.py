"""The life of a device under a taint, with every part at work: driver, scheduler, controllers, nodes; in virtual time.

Spec: dra.md 11 "Five-minute tour", 7.4 (afterwards), 4.1, D-18.
"""

from __future__ import annotations

import pytest

from weir.simulation.cluster import Cluster

pytestmark = pytest.mark.proves("5055-29")

VERSION, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
REQUEST = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": DRIVER}}]}}
CONTAINER = {"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}
LABELS = {"app": "train"}


@pytest.fixture
def cluster():
    with Cluster() as found:
        found.add_nodes(2, devices=4)
        found.advance(5)
        yield found


def rule(effect="NoExecute", **selector):
    spec = {"deviceSelector": selector, "taint": {"key": "bad", "effect": effect}}
    return {"apiVersion": VERSION, "kind": "DeviceTaintRule", "metadata": {"name": "bad"}, "spec": spec}


def deploy(cluster, replicas):
    cluster.create(
        {
            "apiVersion": VERSION,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "t"},
            "spec": {"spec": REQUEST},
        }
    )
    inner = {"containers": [CONTAINER], "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": inner},
    }
    cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
    cluster.advance(30)


def running(cluster):
    return {p["metadata"]["name"]: p for p in cluster.list("Pod") if p["status"]["phase"] == "Running"}


def condition(cluster):
    (found,) = cluster.get("DeviceTaintRule", "bad")["status"]["conditions"]
    return found["status"], found["reason"], found["message"]


def held(cluster):
    """Which devices are in use, by which pods."""
    return {
        (result["pool"], result["device"]): [
            consumer["name"] for consumer in claim["status"].get("reservedFor", [])
        ]
        for claim in cluster.list("ResourceClaim")
        for result in (claim["status"].get("allocation") or {"devices": {"results": []}})["devices"][
            "results"
        ]
    }


def test_a_deployment_leaves_tainted_devices_and_comes_back_when_they_are_well(cluster):
    deploy(cluster, 4)
    before = set(running(cluster))
    cluster.create(rule("None", driver=DRIVER))
    cluster.advance(1)
    foretold = condition(cluster)
    cluster.patch("DeviceTaintRule", "bad", {"spec": {"taint": {"effect": "NoExecute"}}})
    cluster.advance(60)
    meanwhile = (running(cluster), held(cluster), condition(cluster))
    cluster.delete("DeviceTaintRule", "bad")
    cluster.advance(60)
    after = set(running(cluster))
    assert foretold[2].startswith(
        "8 published devices selected. 4 allocated devices selected. 4 pods would be evicted in 1 namespace"
    )
    assert meanwhile == ({}, {}, ("False", "Completed", "4 pods evicted since starting the controller."))
    assert (len(before), len(after), before & after) == (4, 4, set())
    assert len(cluster.list("ResourceClaim")) == 4  # nothing is left of those that went


def test_pods_move_to_devices_that_are_well(cluster):
    deploy(cluster, 4)
    cluster.create(rule(pool="node-0"))
    cluster.advance(60)
    assert {p["spec"]["nodeName"] for p in running(cluster).values()} == {"node-1"}
    assert {pool for pool, _ in held(cluster)} == {"node-1"}


def test_a_claim_of_ones_own_is_free_again_and_gets_another_device(cluster):
    cluster.create(
        {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": {"name": "mine"}, "spec": REQUEST}
    )
    inner = {"containers": [CONTAINER], "resourceClaims": [{"name": "g", "resourceClaimName": "mine"}]}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": inner},
    }
    cluster.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": spec})
    cluster.advance(30)
    ((pool, device),) = held(cluster)
    cluster.create(rule(pool=pool, device=device))
    cluster.advance(90)
    ((there, users),) = held(cluster).items()
    assert there != (pool, device) and users == list(running(cluster))


def test_a_pod_with_an_extended_resource_leaves_and_its_claim_with_it(cluster):
    cluster.patch("DeviceClass", DRIVER, {"spec": {"extendedResourceName": "example.com/gpu"}})
    resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    container = {"name": "c", "image": "i", "resources": resources}
    cluster.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    )
    cluster.advance(30)
    (claim,) = cluster.list("ResourceClaim")
    used = list(running(cluster)), claim["metadata"]["annotations"]
    cluster.create(rule())
    cluster.advance(60)
    assert used == (["p"], {"resource.kubernetes.io/extended-resource-claim": "true"})
    assert (cluster.list("Pod"), cluster.list("ResourceClaim")) == ([], [])


def test_the_same_seed_gives_the_same_history():
    def history():
        with Cluster(seed=7) as cluster:
            cluster.add_nodes(1, devices=4)
            deploy(cluster, 3)
            cluster.create(rule())
            cluster.advance(60)
            return cluster.history()

    assert history() == history()
