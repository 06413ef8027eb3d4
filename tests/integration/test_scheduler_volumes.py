"""Claims are bound before their pod is, against the real API server; a stand-in plays the volume controller."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.test_scheduler import a_cluster
from weir.objects.kinds import by_kind
from weir.scheduler.profile_arguments import ProfileArguments

pytestmark = pytest.mark.proves("5721-83", "5721-90")

CLAIMS, VOLUMES = by_kind("v1", "PersistentVolumeClaim"), by_kind("v1", "PersistentVolume")
CLASSES = by_kind("storage.k8s.io/v1", "StorageClass")


@pytest.fixture
async def cluster(tmp_path):
    async with a_cluster(tmp_path) as made:
        await made.node("n1")
        await made.node("n2")
        yield made


async def storage_class(cluster, provisioner):
    await cluster.client.create(
        CLASSES,
        {
            "metadata": {"name": "wait"},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )


async def claim(cluster, name):
    await cluster.client.create(
        CLAIMS,
        {"metadata": {"name": name, "namespace": "default"},
         "spec": {"storageClassName": "wait", "accessModes": ["ReadWriteOnce"],
                  "resources": {"requests": {"storage": "1Gi"}}}},
    )  # fmt: skip


def using(name):
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]


async def bind(cluster, name, volume):
    """Do what the volume controller does once both sides are chosen."""
    patch = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume},
    }
    await cluster.client.patch(CLAIMS, name, patch, "default")


async def test_a_static_volume_is_claimed_before_the_pod_is_bound(cluster):
    await storage_class(cluster, "kubernetes.io/no-provisioner")
    await claim(cluster, "data")
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
    await cluster.client.create(
        VOLUMES,
        {"metadata": {"name": "v"},
         "spec": {"storageClassName": "wait", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"},
                  "hostPath": {"path": "/x"},
                  "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}},
    )  # fmt: skip
    await cluster.client.patch(VOLUMES, "v", {"status": {"phase": "Available"}}, subresource="status")
    await cluster.pod("p", volumes=using("data"))

    async def claimed():
        volume = await cluster.client.get(VOLUMES, "v")
        return (volume["spec"].get("claimRef") or {}).get("name")

    await cluster.until(claimed)
    early = (await cluster.client.get(by_kind("v1", "Pod"), "p", "default"))["spec"].get("nodeName")
    await bind(cluster, "data", "v")
    assert (early, bool(await cluster.placed("p"))) == (None, True)


async def test_a_provisioner_is_told_the_node_and_waited_for(cluster):
    await storage_class(cluster, "csi.example")
    await claim(cluster, "data")
    await cluster.pod("p", volumes=using("data"))

    async def selected():
        found = await cluster.client.get(CLAIMS, "data", "default")
        return (found["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")

    node = await cluster.until(selected)
    await bind(cluster, "data", "made")
    await cluster.client.create(
        VOLUMES,
        {"metadata": {"name": "made"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                                                "hostPath": {"path": "/x"}, "storageClassName": "wait"}},
    )  # fmt: skip
    assert await cluster.placed("p") == node


async def test_a_provisioner_that_gives_up_sends_the_pod_back_to_the_queue(cluster):
    await storage_class(cluster, "csi.example")
    await claim(cluster, "data")
    await cluster.pod("p", volumes=using("data"))

    async def selected():
        found = await cluster.client.get(CLAIMS, "data", "default")
        return (found["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")

    await cluster.until(selected)
    await cluster.client.patch(
        CLAIMS, "data", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}}, "default"
    )
    condition = await cluster.refused("p")
    assert (
        condition["reason"] == "SchedulerError"
        and 'provisioning failed for PVC "data"' in condition["message"]
    )


async def test_a_claim_that_appears_wakes_the_pod_that_waits_for_it(cluster):
    await storage_class(cluster, "csi.example")
    await cluster.pod("p", volumes=using("late"))
    condition = await cluster.refused("p")
    await claim(cluster, "late")

    async def selected():
        found = await cluster.client.get(CLAIMS, "late", "default")
        return (found["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")

    await asyncio.wait_for(cluster.until(selected), 60)
    assert 'persistentvolumeclaim "late" not found' in condition["message"]


async def test_a_claim_that_is_never_bound_ends_the_attempt_in_time(tmp_path):
    async with a_cluster(tmp_path, ProfileArguments(bind_timeout_seconds=0.5)) as cluster:
        await cluster.node("n1")
        await storage_class(cluster, "csi.example")
        await claim(cluster, "data")
        await cluster.pod("p", volumes=using("data"))
        condition = await cluster.refused("p")
    assert condition["message"] == (
        'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    )
