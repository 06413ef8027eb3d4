"""Adoption and release."""

from __future__ import annotations

import pytest

from tests.unit.controllers.builders import decide, made, of, only, pod, workload
from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Create, Patch
from weir.controllers.runtime.listers import Listers
from weir.controllers.workloads.replicaset import ReplicaSets, ReplicationControllers
from weir.objects.kinds import PODS

KEY = ObjectKey("default", "web")


def patches(actions):
    return {p.name: p.patch["metadata"] for p in only(Patch, actions) if p.kind is PODS}


def test_an_unowned_pod_that_is_selected_is_adopted_and_counts():
    web = workload("ReplicaSet", replicas=1)
    actions = decide(of(ReplicaSets), KEY, [web, pod("stray")])
    (reference,) = patches(actions)["stray"]["ownerReferences"]
    assert (reference["uid"], reference["controller"], only(Create, actions)) == ("uid-web", True, [])


def test_a_pod_no_longer_selected_is_released_and_replaced():
    web = workload("ReplicaSet", replicas=1)
    actions = decide(of(ReplicaSets), KEY, [web, pod("moved", owner=web, labels={"app": "other"})])
    assert patches(actions) == {
        "moved": {"uid": "uid-moved", "ownerReferences": [{"$patch": "delete", "uid": "uid-web"}]}
    }
    assert len(only(Create, actions)) == 1


def test_what_somebody_else_owns_is_left_alone():
    web, other = workload("ReplicaSet", replicas=0), workload("ReplicaSet", "other")
    assert patches(decide(of(ReplicaSets), KEY, [web, pod("theirs", owner=other)])) == {}


@pytest.mark.parametrize(
    "stray",
    [
        pod("ended", phase="Succeeded"),
        pod("going", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        made("Pod", "elsewhere", labels={"app": "web"}, metadata={"namespace": "other"}, spec={}, status={}),
    ],
    ids=["ended", "being deleted", "in another namespace"],
)
def test_a_pod_that_would_not_help_is_not_adopted(stray):
    web = workload("ReplicaSet", replicas=1)
    assert patches(decide(of(ReplicaSets), KEY, [web, stray])) == {}


def test_a_workload_that_is_going_neither_adopts_nor_releases():
    web = workload("ReplicaSet", replicas=1, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    strays = [pod("stray"), pod("moved", owner=web, labels={"app": "other"})]
    assert patches(decide(of(ReplicaSets), KEY, [web, *strays])) == {}


def test_an_unowned_pod_wakes_exactly_those_that_select_it():
    controller = of(ReplicaSets)
    for name, labels in (("web", {"app": "web"}), ("db", {"app": "db"})):
        list(controller.changed(controller.kind, None, workload("ReplicaSet", name, labels=labels)))
    stray = Listers.of([pod("stray")]).pod("default", "stray")
    assert list(controller.changed(PODS, None, stray)) == [KEY]


def test_a_replication_controller_selects_by_plain_labels():
    controller = of(ReplicationControllers)
    document = {**workload("ReplicaSet", replicas=1), "apiVersion": "v1", "kind": "ReplicationController"}
    document["spec"]["selector"] = {"app": "web"}
    assert list(patches(decide(controller, KEY, [document, pod("stray")]))) == ["stray"]
