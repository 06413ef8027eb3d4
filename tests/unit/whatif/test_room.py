"""How much room the nodes that take pods have left."""

from __future__ import annotations

from typing import Any

import pytest

from weir.gates import ALL_FEATURES, TOLERATION_COMPARISON, Gates
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.whatif.room import room


def node(name: str, *effects: str, value: str = "", **spec: Any) -> dict[str, Any]:
    taints = [{"key": "k", "value": value, "effect": effect} for effect in effects]
    allocatable = {"cpu": "2500m", "memory": "1000", "pods": "10"}
    return {
        "metadata": {"name": name},
        "spec": {"taints": taints, **spec},
        "status": {"allocatable": allocatable},
    }


def pod(name: str = "p", owner: str = "", **toleration: Any) -> dict[str, Any]:
    requests = {"requests": {"cpu": "1", "memory": "300"}}
    spec = {"containers": [{"name": "c", "resources": requests}]}
    owners = [{"kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "default", "ownerReferences": owners}
    return {"metadata": metadata, "spec": {**spec, "tolerations": [toleration] if toleration else []}}


def left(
    *nodes: dict[str, Any], pods: int = 0, bound: Any = (), waiting: Any = (), gates: Gates = ALL_FEATURES
) -> dict[str, float]:
    """Return the room on *nodes*, with so many pods on the first of them, and *bound* ones."""
    engine = Engine(ALL_FEATURES)
    for each in nodes:
        engine.table.put_node(read(Node, each))
    for document in [pod(f"p{number}") for number in range(pods)] + list(bound):
        view = read(Pod, document)
        engine.assume(view.key, view, nodes[0]["metadata"]["name"])
    return room(engine.table, gates, [read(Pod, document) for document in waiting])


def test_the_room_of_all_nodes_is_added():
    assert left(node("a"), node("b"), pods=1) == {"cpu": 4.0, "memory": 1700, "pods": 19}


def test_a_node_that_is_overfull_has_no_room_and_takes_none_from_others():
    assert left(node("a"), node("b"), pods=4) == {"cpu": 2.5, "memory": 1000, "pods": 16}
    assert left(node("a"), node("b"), pods=11)["pods"] == 10


@pytest.mark.parametrize(
    "closed", [node("a", "NoSchedule"), node("a", "NoExecute"), node("a", unschedulable=True)]
)
def test_nodes_that_take_no_pods_have_no_room(closed):
    assert left(closed, node("b")) == {"cpu": 2.5, "memory": 1000, "pods": 10}


def test_nodes_that_only_prefer_others_have_room():
    assert left(node("a", "PreferNoSchedule"))["pods"] == 10


TOLERATING = {"key": "k", "operator": "Lt", "value": "20"}


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize(
    "toleration", [{"key": "k", "operator": "Exists"}, TOLERATING, {"operator": "Exists"}]
)
def test_a_tainted_node_whose_taints_a_pod_tolerates_has_room(effect, toleration):
    tainted = node("b", effect, value="15")
    assert left(node("a"), tainted, bound=[pod(**toleration)])["pods"] == 19
    assert left(node("a"), tainted, waiting=[pod(**toleration)])["pods"] == 20
    assert left(node("a"), tainted, waiting=[pod(**{**TOLERATING, "value": "15"})])["pods"] == 10


def test_all_taints_of_a_node_are_tolerated_by_one_pod_or_it_has_no_room():
    both = node("a", "NoSchedule", "NoExecute", value="1")
    one, other = pod(key="k", effect="NoSchedule", value="1"), pod(key="k", effect="NoExecute", value="1")
    assert left(both, waiting=[one, other])["pods"] == 0
    assert left(both, waiting=[pod(key="k", value="1")])["pods"] == 10


def test_a_feature_whose_gate_is_off_tolerates_nothing():
    off = ALL_FEATURES.replace({TOLERATION_COMPARISON: False})
    assert left(node("a", "NoSchedule", value="15"), waiting=[pod(**TOLERATING)], gates=off)["pods"] == 0


def test_pods_of_daemon_sets_open_no_node():
    daemon = pod(owner="DaemonSet", operator="Exists")
    assert left(node("a", "NoSchedule"), bound=[daemon])["pods"] == 0
    assert left(node("a", "NoSchedule"), bound=[pod(owner="ReplicaSet", operator="Exists")])["pods"] == 9


def test_a_cordoned_node_has_no_room_whoever_tolerates_it():
    assert left(node("a", unschedulable=True), waiting=[pod(operator="Exists")])["pods"] == 0
