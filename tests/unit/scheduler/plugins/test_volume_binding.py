"""A pod goes where its volumes are or can be made; every reason in the scheduler's words."""

import pytest

from tests.unit.scheduler.volume_scene import BOUND, CONFLICT, NO_VOLUME, Cluster, on, pod
from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.objects.core import Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.profile_arguments import ProfileArguments
from weir.scheduler.volumes import SELECTED_NODE, CSIDriver, CSIStorageCapacity


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


@pytest.mark.proves("5721-59", "5721-83")
def test_a_volume_that_asks_for_a_version_goes_to_no_node_whose_label_is_none():
    cluster = Cluster(ALL_FEATURES, odd={"kernel": "x-y"}, bare={})
    cluster.claim("data", annotations=BOUND, volumeName="v")
    cluster.volume(
        "v", [{"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}]
    )
    assert cluster.place(pod("data")) == f"0/2 nodes are available: 2 {CONFLICT}."


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
