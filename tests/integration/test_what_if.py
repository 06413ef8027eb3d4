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
from weir.whatif.run import WhatIfOptions, what_if

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


#: Their changes are of every kind: a label, a scale, a cordon, a drain, a deleted node, taints of both effects.
SEEDS = (0, 1, 3, 4, 8, 22, 24, 25, 28)


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


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_pods_leave_at_the_same_time_and_end_in_the_same_places(seed):
    cluster, rng = living(seed)
    with cluster:
        documents = snapshot(cluster)
        made = change(rng)
        there = {f"default/{pod['metadata']['name']}" for pod in cluster.list("Pod")}
        asked = WhatIfOptions(ALL_FEATURES, cluster.now, AHEAD, seed)
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


@pytest.mark.parametrize("seed", SEEDS)
def test_pods_that_cannot_be_touched_may_be_left_out(seed):
    cluster, rng = living(seed)
    with cluster:
        documents, asked = snapshot(cluster), WhatIfOptions(ALL_FEATURES, cluster.now, AHEAD, seed)
    made = change(rng)
    said = []
    for leave_out in (False, True):
        found = what_if(documents, [made], asked, leave_out=leave_out)
        said.append(
            {
                "leaving": {(one.pod, one.after, one.ends_on, one.why_nowhere) for one in found.leaving},
                "workloads": {(each.name, each.before, each.after, each.moves) for each in found.workloads},
                "rest": (
                    found.staying,
                    found.locked_out,
                    found.room,
                    found.circles,
                    found.helped,
                    found.budgets,
                ),
            }
        )
    assert said[0] == said[1], made.say()


def test_only_who_may_be_touched_lives_in_the_copy():
    cluster = Cluster(seed=1)
    with cluster:
        cluster.add_nodes(4, name="n")
        for number in range(6):
            whole = workload(random.Random(number), number) | {"kind": "ReplicaSet"}
            whole["spec"] = {name: whole["spec"][name] for name in ("selector", "template")} | {"replicas": 2}
            whole["spec"]["template"]["spec"].pop("nodeSelector", None)
            cluster.apply(whole)
        cluster.advance(30)
        documents, now = snapshot(cluster), cluster.now
        touched = {p["metadata"]["name"] for p in cluster.list("Pod") if p["spec"]["nodeName"] == "n-0"}
    alive: list[set[str]] = []
    what_if(
        documents,
        [Cordon(Nodes(("n-0",)))],
        WhatIfOptions(ALL_FEATURES, now, 60.0),
        at_the_end=lambda copy: alive.append({pod["metadata"]["name"] for pod in copy.list("Pod")}),
        leave_out=True,
    )
    assert (alive, 0 < len(touched) < 12) == ([touched], True)


def test_a_pod_left_out_is_pushed_out_by_a_more_important_one_all_the_same():
    cluster = Cluster(seed=1)
    with cluster:
        for name in ("a", "b"):
            cluster.add_node(name, node_class=NodeClass("c", {"cpu": "2", "memory": "4Gi", "pods": "20"}))
        cluster.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 100,
            }
        )
        for number, node, more in ((0, "a", {"priorityClassName": "high"}), (1, "b", {})):
            whole = workload(random.Random(1), number) | {"kind": "ReplicaSet"}
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
            selector = {"kubernetes.io/hostname": node} if number else {}
            spec = {"containers": [container], "nodeSelector": selector, **more}
            template = {"metadata": {"labels": {"app": f"w{number}"}}, "spec": spec}
            whole["spec"] = {"replicas": 1, "selector": whole["spec"]["selector"], "template": template}
            if not number:
                cluster.patch("Node", "b", {"spec": {"unschedulable": True}})
            cluster.apply(whole)
            cluster.advance(5)
            cluster.patch("Node", "b", {"spec": {"unschedulable": None}})
            cluster.advance(5)
        documents, now = snapshot(cluster), cluster.now
    evicting = Taint(Nodes(("a",)), (TaintEdit(parse_taint("hot:NoExecute")),))
    found = what_if(documents, [evicting], WhatIfOptions(ALL_FEATURES, now, AHEAD), leave_out=True)
    assert {one.pod.partition("-")[0]: one.cause.why.value for one in found.leaving} == {
        "default/w0": "taint",
        "default/w1": "preemption",
    }
