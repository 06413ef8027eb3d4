"""A driver attaches so many volumes to a node and no more."""

import pytest

from tests.unit.scheduler.volume_scene import BOUND, Cluster, pod
from weir.gates import Gates
from weir.objects.core import Pod, read
from weir.scheduler.volumes import CSIDriver, CSINode, VolumeAttachment


def test_a_node_takes_as_many_volumes_as_its_driver_attaches():
    cluster = Cluster(n1={})
    driver = {"name": "csi.example", "allocatable": {"count": 1}}
    attaches = read(CSINode, {"metadata": {"name": "n1"}, "spec": {"drivers": [driver]}})
    cluster.storage.put("csi_nodes", None, attaches)
    for name in "ab":
        cluster.claim(name, annotations=BOUND, volumeName=f"v{name}")
        cluster.volume(f"v{name}", csi={"driver": "csi.example", "volumeHandle": name})
    cluster.engine.assume("default/a", pod("a", name="a"), "n1")
    assert (cluster.place(pod("a", name="a2")), cluster.place(pod("b"))) == (
        "n1",
        "0/1 nodes are available: 1 node(s) exceed max volume count.",
    )


def test_a_volume_still_attached_after_its_pod_left_counts_against_the_limit():
    cluster = Cluster(n1={})
    driver = {"name": "csi.example", "allocatable": {"count": 1}}
    attaches = read(CSINode, {"metadata": {"name": "n1"}, "spec": {"drivers": [driver]}})
    cluster.storage.put("csi_nodes", None, attaches)
    for name in "ab":
        cluster.claim(name, annotations=BOUND, volumeName=f"v{name}")
        cluster.volume(f"v{name}", csi={"driver": "csi.example", "volumeHandle": name})
    spec = {"attacher": "csi.example", "nodeName": "n1", "source": {"persistentVolumeName": "va"}}
    attachment = read(VolumeAttachment, {"metadata": {"name": "att"}, "spec": spec})
    before = cluster.place(pod("b"))
    cluster.storage.put("attachments", None, attachment)
    assert (before, cluster.place(pod("b"))) == (
        "n1",
        "0/1 nodes are available: 1 node(s) exceed max volume count.",
    )


def csi_node(cluster, name, *drivers):
    drivers = [{"name": driver, "allocatable": {"count": count}} for driver, count in drivers]
    cluster.storage.put(
        "csi_nodes", None, read(CSINode, {"metadata": {"name": name}, "spec": {"drivers": drivers}})
    )


@pytest.mark.parametrize(
    ("driver", "source", "other"),
    [
        ("ebs.csi.aws.com", {"awsElasticBlockStore": {"volumeID": "aws://a/vol-1"}},
         {"awsElasticBlockStore": {"volumeID": "vol-2"}}),
        ("pd.csi.storage.gke.io", {"gcePersistentDisk": {"pdName": "a"}}, {"gcePersistentDisk": {"pdName": "b"}}),
        ("disk.csi.azure.com", {"azureDisk": {"diskName": "a", "diskURI": "/a", "kind": "Managed"}},
         {"azureDisk": {"diskName": "b", "diskURI": "/b"}}),
        ("cinder.csi.openstack.org", {"cinder": {"volumeID": "a"}}, {"cinder": {"volumeID": "b"}}),
        ("pxd.portworx.com", {"portworxVolume": {"volumeID": "a"}}, {"portworxVolume": {"volumeID": "b"}}),
    ],
)  # fmt: skip
def test_volumes_of_old_kinds_count_for_the_driver_that_took_over(driver, source, other):
    cluster = Cluster(n1={})
    csi_node(cluster, "n1", (driver, 1))
    cluster.claim("a", annotations=BOUND, volumeName="va")
    cluster.volume("va", **source)
    inline = read(Pod, {"metadata": {"name": "inline", "namespace": "default"},
                        "spec": {"containers": [], "volumes": [{"name": "v", **other}]}})  # fmt: skip
    before = cluster.place(inline)
    cluster.engine.assume("default/a", pod("a", name="a"), "n1")
    assert (before, cluster.place(inline)) == (
        "n1",
        "0/1 nodes are available: 1 node(s) exceed max volume count.",
    )


@pytest.mark.parametrize(("on", "placed"), [(True, "n2"), (False, "n1")])
def test_a_driver_may_ask_that_pods_keep_away_from_nodes_without_it(on, placed):
    gates = Gates({"VolumeLimitScaling": on})
    cluster = Cluster(gates, n1={}, n2={})
    cluster.storage_class(provisioner="csi.example")
    cluster.claim("data")
    csi_node(cluster, "n2", ("csi.example", 5))
    driver = {"metadata": {"name": "csi.example"}, "spec": {"preventPodSchedulingIfMissing": True}}
    cluster.storage.put("csi_drivers", None, read(CSIDriver, driver))
    assert cluster.place(pod("data")) == placed


def test_the_missing_driver_is_named():
    cluster = Cluster(n1={})
    cluster.storage_class(provisioner="csi.example")
    cluster.claim("data")
    driver = {"metadata": {"name": "csi.example"}, "spec": {"preventPodSchedulingIfMissing": True}}
    cluster.storage.put("csi_drivers", None, read(CSIDriver, driver))
    said = "0/1 nodes are available: 1 csi.example CSI driver is not installed on the node."
    assert cluster.place(pod("data")) == said
