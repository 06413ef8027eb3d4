"""A pod goes where its volumes are or can be made; every reason in the scheduler's words."""

import pytest

from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.objects.core import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, read
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import PluginError
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.volumes import (
    SELECTED_NODE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Storage,
    VolumeAttachment,
)

GIB = "1Gi"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


class Cluster:
    def __init__(self, gates=ALL_FEATURES, **labels_by_node):
        self.storage = Storage()
        self.engine = Engine(gates, ProfileArguments(), storage=self.storage)
        for name, labels in (labels_by_node or {"n1": {}, "n2": {}}).items():
            self.node(name, **labels)

    def node(self, name, **labels):
        labels = {key.replace("__", "/"): value for key, value in labels.items()}
        self.engine.table.put_node(
            read(Node, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
                        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}})
        )  # fmt: skip

    def claim(self, name, storage_class="wait", size=GIB, annotations=None, status=None, meta=None, **spec):
        self.storage.put("claims", None, read(PersistentVolumeClaim, {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}",
                         "annotations": annotations or {}, **(meta or {})},
            "spec": {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"],
                     "resources": {"requests": {"storage": size}}, **spec}, "status": status or {}}))  # fmt: skip

    def volume(self, name, terms=None, size=GIB, phase="Available", labels=None, **spec):
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms is not None else {}
        self.storage.put("volumes", None, read(PersistentVolume, {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"storageClassName": "wait", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
                     **affinity, **spec}, "status": {"phase": phase}}))  # fmt: skip

    def storage_class(self, name="wait", provisioner="kubernetes.io/no-provisioner", **more):
        self.storage.put("classes", None, read(StorageClass, {
            "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer", **more}))  # fmt: skip

    def place(self, pod):
        answer = self.engine.place(pod)
        return answer.node if isinstance(answer, Placement) else answer.message


def on(host):
    return [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]


def pod(*claims, name="p", **spec):
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return read(Pod, {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                      "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **spec}})  # fmt: skip


# ── PreFilter ──


def test_a_missing_claim_is_named():
    assert Cluster().place(pod("data")) == (
        '0/2 nodes are available: persistentvolumeclaim "data" not found.'
    )


def test_an_ephemeral_claim_is_waited_for():
    ephemeral = read(Pod, {"metadata": {"name": "p", "namespace": "default"},
                           "spec": {"volumes": [{"name": "tmp", "ephemeral": {}}]}})  # fmt: skip
    assert Cluster().place(ephemeral) == (
        "0/2 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "
        '"p-tmp".'
    )


def test_a_claim_made_for_another_pod_is_refused():
    cluster = Cluster()
    cluster.claim("p-tmp", "now")
    ephemeral = read(Pod, {"metadata": {"name": "p", "namespace": "default", "uid": "1"},
                           "spec": {"volumes": [{"name": "tmp", "ephemeral": {}}]}})  # fmt: skip
    assert "PVC default/p-tmp was not created for pod default/p (pod is not owner)" in cluster.place(
        ephemeral
    )


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ({"status": {"phase": "Lost"}, "volumeName": "gone"},
         'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"'),
        ({"meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 'persistentvolumeclaim "data" is being deleted'),
        ({"storage_class": "now"}, "pod has unbound immediate PersistentVolumeClaims"),
        ({"volumeName": "preset"}, "pod has unbound immediate PersistentVolumeClaims"),
    ],
)  # fmt: skip
def test_a_claim_that_cannot_be_used_anywhere_speaks_for_all_nodes(claim, reason):
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim("data", **claim)
    assert cluster.place(pod("data")) == f"0/2 nodes are available: {reason}."


# ── bound claims ──


def test_a_pod_follows_its_volume():
    cluster = Cluster()
    cluster.claim("data", annotations=BOUND, volumeName="v")
    cluster.volume("v", on("n2"), phase="Bound")
    assert cluster.place(pod("data")) == "n2"


def test_a_volume_elsewhere_refuses_the_node():
    cluster = Cluster()
    cluster.claim("data", annotations=BOUND, volumeName="v")
    cluster.volume("v", on("n9"), phase="Bound")
    assert cluster.place(pod("data")) == f"0/2 nodes are available: 2 {CONFLICT}."


@pytest.mark.parametrize(("gates", "placed"), [(ALL_FEATURES, "new"), (KUBERNETES_DEFAULTS, None)])
def test_a_volume_can_ask_for_a_kernel_version_while_the_gate_is_on(gates, placed):
    cluster = Cluster(gates, old={"kernel": "5.10.0"}, new={"kernel": "5.15.0"})
    cluster.claim("data", annotations=BOUND, volumeName="v")
    cluster.volume(
        "v", [{"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}]
    )
    expected = placed or f"0/2 nodes are available: 2 {CONFLICT}."
    assert cluster.place(pod("data")) == expected


def test_match_fields_of_a_volume_are_not_looked_at():
    cluster = Cluster()
    cluster.claim("data", annotations=BOUND, volumeName="v")
    cluster.volume("v", [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}])
    assert cluster.place(pod("data")) == "n1"


def test_the_status_of_a_lost_volume_is_kept_beside_prefilter():
    cluster = Cluster()
    cluster.claim("data", annotations=BOUND, volumeName="v")
    (status,) = {s.reasons for s in cluster.engine.statuses(pod("data")).values()}
    assert status == ("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",)


# ── waiting claims ──


def test_a_waiting_claim_takes_the_smallest_volume_that_fits():
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim("data")
    cluster.volume("large", on("n1"), size="9Gi")
    cluster.volume("small", on("n1"), size="2Gi")
    cluster.volume("tiny", on("n1"), size="1Mi")
    cluster.place(pod("data"))
    (reservation,) = cluster.engine.reserve(pod("data"), "n1")
    (write,) = reservation.writes()
    assert (write.kind, write.name, write.patch["spec"]["claimRef"]["uid"]) == (
        "PersistentVolume", "small", "uid-data",
    )  # fmt: skip


def test_two_claims_never_get_one_volume():
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim("a")
    cluster.claim("b")
    cluster.volume("v1", on("n1"))
    cluster.volume("v2", on("n2"))
    assert cluster.place(pod("a", "b")) == f"0/2 nodes are available: 2 {NO_VOLUME}."


def test_a_promised_volume_is_nobody_elses_until_the_promise_ends():
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim("a")
    cluster.claim("b")
    cluster.volume("v", on("n1"))
    (reservation,) = cluster.engine.reserve(pod("a"), "n1")
    while_promised = cluster.place(pod("b"))
    reservation.end()
    assert (while_promised, cluster.place(pod("b"))) == (f"0/2 nodes are available: 2 {NO_VOLUME}.", "n1")


@pytest.mark.parametrize(
    "volume",
    [
        {"phase": "Released"}, {"size": "1Mi"}, {"volumeMode": "Block"}, {"accessModes": ["ReadOnlyMany"]},
        {"storageClassName": "other"}, {"claimRef": {"namespace": "default", "name": "another"}},
        {"volumeAttributesClassName": "gold"},
    ],
    ids=lambda v: next(iter(v)),
)  # fmt: skip
def test_a_volume_that_does_not_qualify_is_passed_over(volume):
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim("data")
    cluster.volume("v", **volume)
    assert cluster.place(pod("data")) == f"0/2 nodes are available: 2 {NO_VOLUME}."


def test_a_claim_with_a_volume_of_its_own_takes_no_other():
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim("data")
    cluster.volume("own", on("n2"), claimRef={"namespace": "default", "name": "data"})
    cluster.volume("free", on("n1"))
    assert cluster.place(pod("data")) == "n2"


def test_the_selector_of_a_claim_chooses_volumes():
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim("data", selector={"matchLabels": {"tier": "fast"}})
    cluster.volume("slow", on("n1"))
    cluster.volume("fast", on("n2"), labels={"tier": "fast"})
    assert cluster.place(pod("data")) == "n2"


def test_a_selected_node_is_the_only_one():
    cluster = Cluster()
    cluster.storage_class(provisioner="csi.example")
    cluster.claim("data", annotations={SELECTED_NODE: "n2"})
    assert cluster.place(pod("data")) == "n2"


def test_volumes_are_made_where_the_class_allows():
    cluster = Cluster(n1={"zone": "a"}, n2={"zone": "b"})
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]
    cluster.storage_class(provisioner="csi.example", allowedTopologies=topologies)
    cluster.claim("data")
    assert cluster.place(pod("data")) == "n2"


def test_a_driver_that_publishes_capacity_is_believed():
    cluster = Cluster(n1={"zone": "a"}, n2={"zone": "b"})
    cluster.storage_class(provisioner="csi.example")
    cluster.storage.put("csi_drivers", None, read(CSIDriver, {
        "metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}}))  # fmt: skip
    cluster.storage.put("capacities", None, read(CSIStorageCapacity, {
        "metadata": {"name": "c", "namespace": "x"}, "storageClassName": "wait", "capacity": "2Gi",
        "nodeTopology": {"matchLabels": {"zone": "b"}}}))  # fmt: skip
    cluster.claim("small")
    cluster.claim("large", size="3Gi")
    assert (cluster.place(pod("small")), cluster.place(pod("large"))) == (
        "n2",
        "0/2 nodes are available: 2 node(s) did not have enough free storage.",
    )


# ── promises ──


def reserved():
    cluster = Cluster()
    cluster.storage_class(provisioner="csi.example")
    cluster.claim("data")
    (reservation,) = cluster.engine.reserve(pod("data"), "n1")
    return cluster, reservation


def test_provisioning_writes_the_node_on_the_claim():
    _, reservation = reserved()
    (write,) = reservation.writes()
    assert write.patch["metadata"]["annotations"] == {SELECTED_NODE: "n1"}


def test_a_promise_is_kept_when_the_claim_is_bound():
    cluster, reservation = reserved()
    cluster.claim("data", annotations={SELECTED_NODE: "n1"})
    before = reservation.settled()
    cluster.claim("data", annotations={SELECTED_NODE: "n1", **BOUND}, volumeName="v")
    assert (before, reservation.settled()) == (False, True)


def test_a_provisioner_that_gives_the_node_back_ends_the_attempt():
    cluster, reservation = reserved()
    cluster.claim("data")
    with pytest.raises(PluginError, match='provisioning failed for PVC "data"'):
        reservation.settled()


# ── zones, limits, restrictions ──


def test_a_volume_with_a_zone_label_stays_in_its_zones():
    zone = "topology.kubernetes.io/zone"
    cluster = Cluster(n1={zone.replace("/", "__"): "a"}, n2={zone.replace("/", "__"): "c"})
    cluster.claim("data", annotations=BOUND, volumeName="v")
    cluster.volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "b__c"})
    assert cluster.place(pod("data")) == "n2"


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


# ── scores ──


def test_the_volume_that_is_filled_least_scores_best():
    cluster = Cluster()
    cluster.storage_class()
    cluster.claim("data", size="1Gi")
    cluster.volume("tight", on("n1"), size="1Gi")
    cluster.volume("roomy", on("n2"), size="4Gi")
    scores = cluster.engine.scores(pod("data"))
    assert scores["n2"] - scores["n1"] == 75


@pytest.mark.parametrize(("shape", "difference"), [((), 40), (((0, 0), (100, 10)), -40)])
def test_a_pool_is_shared_by_all_claims_of_its_class_and_the_shape_says_what_is_best(shape, difference):
    cluster = Cluster(n1={"zone": "a"}, n2={"zone": "b"})
    arguments = ProfileArguments(volume_shape=shape)
    cluster.engine = Engine(ALL_FEATURES, arguments, table=cluster.engine.table, storage=cluster.storage)
    cluster.storage_class(provisioner="csi.example")
    driver = {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}}
    cluster.storage.put("csi_drivers", None, read(CSIDriver, driver))
    for zone, size in (("a", "4Gi"), ("b", "20Gi")):
        cluster.storage.put("capacities", None, read(CSIStorageCapacity, {
            "metadata": {"name": zone, "namespace": "x"}, "storageClassName": "wait", "capacity": size,
            "nodeTopology": {"matchLabels": {"zone": zone}}}))  # fmt: skip
    cluster.claim("one")
    cluster.claim("two")
    scores = cluster.engine.scores(pod("one", "two"))
    assert scores["n2"] - scores["n1"] == difference


def test_storage_makes_no_difference_while_its_gate_is_off():
    cluster = Cluster(Gates({"StorageCapacityScoring": False}))
    cluster.storage_class()
    cluster.claim("data", size="1Gi")
    cluster.volume("tight", on("n1"), size="1Gi")
    cluster.volume("roomy", on("n2"), size="4Gi")
    scores = cluster.engine.scores(pod("data"))
    assert scores["n1"] == scores["n2"]
