"""What is foreseen is what happens: the forecast of a taint against a cluster that lives through it."""

from __future__ import annotations

import random

import pytest

from weir.devices.inventory import Inventory
from weir.explain.whatif import State, what_if
from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster
from weir.world import World

KINDS = ("Node", "Pod", "Namespace")


def workload(rng: random.Random, number: int) -> dict:
    tolerations = []
    for _ in range(rng.randrange(3)):
        entry = {
            "key": "sla",
            "operator": rng.choice(["Gt", "Lt", "Equal"]),
            "value": str(rng.randrange(3) * 400),
        }
        if rng.random() < 0.6:
            entry |= {"effect": "NoExecute", "tolerationSeconds": rng.choice([0, 20, 90])}
        tolerations.append(entry)
    name, labels = f"w{number}", {"app": f"w{number}"}
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": rng.choice(["100m", "1", "3"])}},
    }
    spec = {"containers": [container], "tolerations": tolerations, "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": rng.randrange(1, 4), "selector": {"matchLabels": labels}, "template": template},
    }


def state(cluster: Cluster, *changed: dict) -> State:
    names = {document["metadata"]["name"] for document in changed if document["kind"] == "Node"}
    documents = [
        {"kind": kind, **document}
        for kind in KINDS
        for document in cluster.list(kind)
        if not (kind == "Node" and document["metadata"]["name"] in names)
    ]
    documents += changed
    return State(World.of(documents), Inventory.of(documents, ALL_FEATURES))


@pytest.mark.parametrize("seed", range(8))
def test_the_same_pods_leave_and_at_the_same_time(seed):
    rng = random.Random(seed)
    with Cluster(seed=seed) as cluster:
        cluster.add_nodes(name="n", count=2)
        for number in range(4):
            cluster.apply(workload(rng, number))
        cluster.advance(30)
        there = {f"default/{pod['metadata']['name']}" for pod in cluster.list("Pod")}
        value = rng.randrange(900)
        node = cluster.get("Node", "n-0")
        assert node is not None
        taints = [{"key": "sla", "value": str(value), "effect": "NoExecute"}]
        tainted = {**node, "kind": "Node", "spec": {**node["spec"], "taints": taints}}
        forecast = what_if(state(cluster), state(cluster, tainted), ALL_FEATURES, cluster.now)
        began, left = cluster.now, {}

        def see(old, new):
            if old is not None and (new is None or new["metadata"].get("deletionTimestamp")):
                seconds = round((cluster.now - began).total_seconds())
                left.setdefault(f"default/{old['metadata']['name']}", seconds)

        cluster.follow("Pod", see)
        cluster.taint("n-0", f"sla={value}:NoExecute")
        cluster.advance(180)
    expected = {name: seconds for name, seconds in left.items() if name in there}
    assert {one.pod: round(one.cause.after.total_seconds()) for one in forecast.leaving} == expected
