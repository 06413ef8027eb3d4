"""A volume with a zone label stays in its zones."""

from tests.unit.scheduler.volume_scene import BOUND, Cluster, pod


def test_a_volume_with_a_zone_label_stays_in_its_zones():
    zone = "topology.kubernetes.io/zone"
    cluster = Cluster(n1={zone.replace("/", "__"): "a"}, n2={zone.replace("/", "__"): "c"})
    cluster.claim("data", annotations=BOUND, volumeName="v")
    cluster.volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "b__c"})
    assert cluster.place(pod("data")) == "n2"
