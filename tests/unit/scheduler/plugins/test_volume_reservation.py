"""What Reserve promised of the storage is written, waited for and taken back."""

import pytest

from tests.unit.scheduler.volume_scene import BOUND, Cluster, pod
from weir.scheduler.framework import PluginError
from weir.scheduler.volumes import SELECTED_NODE


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
