"""The time of day is set an hour ahead or back: nobody is evicted for it, and nobody stays longer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from weir.clock import VirtualClock
from weir.simulation.cluster import Cluster

HOUR = 3600.0
TOLERATES = {"key": "flaky", "operator": "Exists", "effect": "NoExecute"}


def pod(name, node, **toleration):
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    spec["tolerations"] = [{**TOLERATES, **toleration}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def names(cluster):
    return {each["metadata"]["name"] for each in cluster.list("Pod")}


def taints(cluster):
    return {taint["key"] for node in cluster.list("Node") for taint in node["spec"].get("taints") or ()}


@pytest.mark.parametrize("step", [HOUR, -HOUR, 24 * HOUR], ids=["ahead", "back", "a day ahead"])
@pytest.mark.parametrize("every_heartbeat", [False, True], ids=["postponed heartbeats", "every heartbeat"])
def test_a_step_neither_evicts_nor_spares(step, every_heartbeat):
    clock = VirtualClock(can_be_set=True)
    with Cluster(clock=clock, nodes=3, every_heartbeat=every_heartbeat) as cluster:
        cluster.advance(60)
        cluster.taint("node-0", "flaky=1:NoExecute")
        cluster.apply(pod("stays", "node-0"), pod("bounded", "node-0", tolerationSeconds=300))
        cluster.apply(pod("elsewhere", "node-1"))
        cluster.advance(100)
        clock.set_by(step)
        cluster.advance(60)
        # Something happens to everybody, so that everything is looked at again.
        for name in ("node-0", "node-1", "node-2"):
            cluster.patch("Node", name, {"metadata": {"labels": {"seen": "again"}}})
        cluster.advance(100)
        assert (names(cluster), taints(cluster)) == ({"stays", "bounded", "elsewhere"}, {"flaky"})
        cluster.advance(75)  # 335 seconds, and the time a pod takes to end
        assert (names(cluster), taints(cluster)) == ({"stays", "elsewhere"}, {"flaky"})


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["ahead", "back"])
def test_a_silent_node_is_found_in_its_time(step):
    clock = VirtualClock(can_be_set=True)
    with Cluster(clock=clock, nodes=2) as cluster:
        cluster.advance(60)
        cluster.patch("Node", "node-0", {"metadata": {"annotations": {"weir.dev/failed": "now"}}})
        cluster.advance(20)
        clock.set_by(step)
        cluster.advance(15)
        early = taints(cluster)
        cluster.advance(45)
        assert (early, taints(cluster)) == (set(), {"node.kubernetes.io/unreachable"})


def test_a_clock_that_cannot_be_set_says_so():
    with pytest.raises(ValueError, match="can_be_set"):
        VirtualClock().set_by(1)


def test_moments_of_one_clock_are_apart_by_what_passed():
    clock = VirtualClock(can_be_set=True)
    before = clock.now()
    clock.set_by(-HOUR)
    after = clock.now()
    assert after - before == timedelta(0) and after.timestamp() == before.timestamp() - HOUR
    assert before <= after <= before + timedelta(seconds=1) and not after < before


def device_pod(name, seconds):
    """Return a pod and its claim for a device, which tolerates the taint `bad` for so long."""
    tolerations = [{"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]
    exactly = {"deviceClassName": "gpu.example.com", "tolerations": tolerations}
    requests = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    claims = [{"name": "g", "resourceClaimName": name}]
    containers = [{"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}]
    metadata = {"name": name, "namespace": "default"}
    version = "resource.k8s.io/v1"
    return (
        {"apiVersion": version, "kind": "ResourceClaim", "metadata": metadata, "spec": requests},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": containers, "resourceClaims": claims},
        },
    )


@pytest.mark.parametrize(("step", "later"), [(HOUR, 0), (-HOUR, HOUR)], ids=["ahead", "back"])
def test_a_device_taint_never_evicts_early_when_the_clock_is_set(step, later):
    """`timeAdded` is a time of day: set back, the toleration ends later by as much."""
    clock = VirtualClock(can_be_set=True)
    with Cluster(clock=clock) as cluster:
        cluster.add_nodes(1, devices=1)
        cluster.advance(5)
        cluster.apply(*device_pod("p", 300))
        cluster.advance(30)
        taint = {"key": "bad", "effect": "NoExecute"}
        spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint}
        rule = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "bad"}}
        cluster.apply({**rule, "spec": spec})
        cluster.advance(100)
        clock.set_by(step)
        cluster.patch("DeviceTaintRule", "bad", {"metadata": {"labels": {"seen": "again"}}})
        cluster.advance(190 + later)
        assert names(cluster) == {"p"}
        cluster.advance(60)
        assert names(cluster) == set()
