"""How much room the nodes that take pods have left."""

from __future__ import annotations

from typing import Any

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.whatif.room import room


def node(name: str, *effects: str, **spec: Any) -> dict[str, Any]:
    taints = [{"key": "k", "effect": effect} for effect in effects]
    allocatable = {"cpu": "2500m", "memory": "1000", "pods": "10"}
    return {
        "metadata": {"name": name},
        "spec": {"taints": taints, **spec},
        "status": {"allocatable": allocatable},
    }


def left(*nodes: dict[str, Any], pods: int = 0, known: bool = True) -> dict[str, float]:
    """Return the room on *nodes*, with so many pods on the first of them that ask for a core and 300 bytes."""
    engine = Engine(ALL_FEATURES)
    for each in nodes:
        engine.table.put_node(read(Node, each))
    for number in range(pods):
        requests = {"requests": {"cpu": "1", "memory": "300"}}
        spec = {
            "containers": [{"name": "c", "resources": requests}],
            "nodeName": nodes[0]["metadata"]["name"],
        }
        pod = read(Pod, {"metadata": {"name": f"p{number}", "namespace": "default"}, "spec": spec})
        engine.assume(pod.key, pod, nodes[0]["metadata"]["name"])
    return room(engine.table, {each["metadata"]["name"]: each for each in nodes} if known else {})


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


@pytest.mark.parametrize("known", [True, False])
def test_nodes_that_only_prefer_others_have_room(known):
    assert left(node("a", "PreferNoSchedule"), known=known)["pods"] == 10
