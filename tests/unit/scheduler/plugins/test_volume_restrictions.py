"""Some disks are used once on a node, some claims by one pod."""

from tests.unit.scheduler.volume_scene import BOUND, Cluster, pod
from weir.objects.core import Pod, read


def test_a_claim_for_one_pod_is_refused_to_a_second():
    cluster = Cluster()
    cluster.claim("data", annotations=BOUND, volumeName="v", accessModes=["ReadWriteOncePod"])
    cluster.volume("v")
    first = cluster.place(pod("data", name="a"))
    cluster.engine.assume("default/a", pod("data", name="a"), first)
    assert cluster.place(pod("data", name="b")) == (
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access "
        "mode already in-use by another pod."
    )


def test_a_disk_is_used_once_on_a_node_unless_only_read():
    def with_disk(name, **more):
        disk = {"name": "d", "gcePersistentDisk": {"pdName": "disk", **more}}
        return read(Pod, {"metadata": {"name": name, "namespace": "default"}, "spec": {"volumes": [disk]}})

    cluster = Cluster(n1={})
    cluster.engine.assume("default/a", with_disk("a", readOnly=True), "n1")
    assert (cluster.place(with_disk("b", readOnly=True)), cluster.place(with_disk("c"))) == (
        "n1",
        "0/1 nodes are available: 1 node(s) had no available disk.",
    )
