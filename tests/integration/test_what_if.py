"""What is foreseen is what happens: the forecast of a change against a cluster that lives through the same change."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from weir.client.snapshot import VERSIONS, WHAT_IF
from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.node_classes import NodeClass
from weir.taints.notation import parse_taint
from weir.whatif.changes import Change, Cordon, DeleteNode, Drain, Label, Nodes, Scale, Taint, TaintEdit
from weir.whatif.run import Asked, what_if

Document = dict[str, Any]
AHEAD = 240.0


def tolerations(rng: random.Random) -> list[Document]:
    found = []
    for _ in range(rng.randrange(3)):
        entry: Document = {
            "key": "sla",
            "operator": rng.choice(["Gt", "Lt", "Equal"]),
            "value": str(rng.randrange(3) * 400),
        }
        if rng.random() < 0.6:
            entry |= {"effect": "NoExecute", "tolerationSeconds": rng.choice([0, 20, 90])}
        found.append(entry)
    return found


def workload(rng: random.Random, number: int) -> Document:
    kind = rng.choice(["ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"])
    name, labels = f"w{number}", {"app": f"w{number}"}
    amount = rng.choice(["100m", "500m", "1"])
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": amount}}}
    spec: Document = {"containers": [container], "tolerations": tolerations(rng)}
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"pool": rng.choice(["x", "y"])}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole: Document = {"selector": {"matchLabels": labels}, "template": template}
    if kind != "DaemonSet":
        whole["replicas"] = rng.randrange(1, 4)
    if kind == "StatefulSet":
        whole["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}


def budget(rng: random.Random, number: int) -> Document:
    selector = {"matchLabels": {"app": f"w{number}"}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"w{number}"},
        "spec": {"minAvailable": rng.randrange(3), "selector": selector},
    }


def change(rng: random.Random) -> Change:
    value = rng.randrange(900)
    node = Nodes((rng.choice(["n-0", "n-1"]),))
    taint = Taint(node, (TaintEdit(parse_taint(f"sla={value}:{rng.choice(['NoExecute', 'NoSchedule'])}")),))
    evicting = Taint(node, (TaintEdit(parse_taint(f"sla={value}:NoExecute")),))
    scale = Scale("deploy/steady", rng.randrange(5))
    return rng.choice(
        [
            taint,
            evicting,
            evicting,
            Cordon(node),
            Drain(node),
            DeleteNode(node),
            Label(node, (("pool", "y"),)),
            scale,
        ]
    )


def snapshot(cluster: Cluster) -> list[Document]:
    return [
        {"apiVersion": VERSIONS[kind][0], "kind": kind, **document}
        for kind in WHAT_IF
        for document in cluster.list(kind)
    ]


def living(seed: int) -> tuple[Cluster, random.Random]:
    """A cluster with a few workloads, no two nodes alike, so that places are not a matter of chance."""
    rng = random.Random(seed)
    cluster = Cluster(seed=seed)
    for number, cpu in enumerate((6, 10, 15, 23)):
        size = NodeClass(f"c{number}", {"cpu": str(cpu), "memory": f"{3 * cpu}Gi", "pods": "110"})
        cluster.add_node(f"n-{number}", node_class=size, labels={"pool": "xy"[number % 2]})
    steady = workload(random.Random(1), 9)
    steady |= {"kind": "Deployment", "metadata": {"name": "steady"}}
    steady["spec"].pop("serviceName", None)
    cluster.apply(steady)
    for number in range(4):
        cluster.apply(workload(rng, number))
        if rng.random() < 0.5:
            cluster.apply(budget(rng, number))
    cluster.advance(30)
    return cluster, rng


def ends(cluster: Cluster) -> Counter[tuple[str, str, str]]:
    """Where the pods of each workload are: their app, node and phase."""
    return Counter(
        (pod["metadata"]["labels"]["app"], pod["spec"].get("nodeName", ""), pod["status"]["phase"])
        for pod in cluster.list("Pod")
        if not pod["metadata"].get("deletionTimestamp")
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_same_pods_leave_at_the_same_time_and_end_in_the_same_places(seed):
    cluster, rng = living(seed)
    with cluster:
        documents = snapshot(cluster)
        made = change(rng)
        there = {f"default/{pod['metadata']['name']}" for pod in cluster.list("Pod")}
        asked = Asked(ALL_FEATURES, cluster.now, AHEAD, seed)
        copies: list[Counter[tuple[str, str, str]]] = []
        forecast = what_if(documents, [made], asked, at_the_end=lambda copy: copies.append(ends(copy)))
        began, left = cluster.now, {}

        def see(now, old, new):
            if old is not None and now >= began and (new is None or new["metadata"].get("deletionTimestamp")):
                left.setdefault(f"default/{old['metadata']['name']}", round((now - began).total_seconds()))

        cluster.observe("Pod", see)
        made.make(cluster)
        cluster.advance(forecast.looked)
        happened = ends(cluster)
    expected = {name: seconds for name, seconds in left.items() if name in there}
    assert {one.pod: round(one.after.total_seconds()) for one in forecast.leaving} == expected, made.say()
    assert copies == [happened], made.say()
