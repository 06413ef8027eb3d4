"""A cluster whose workloads differ, as a dump: for `bench what_if` and `bench explain`.

Each workload has requests, tolerations (numeric, SemVer, CEL, plain), labels, priority and constraints of its own:
Deployments with their ReplicaSets, StatefulSets, Jobs and DaemonSets, some with a disruption budget, a third with a
spread constraint. Every pod stands on a node whose taints it tolerates. The same seed makes the same cluster.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from weir.gates import ALL_FEATURES
from weir.objects.core import Taint, Toleration, read
from weir.taints.toleration import BLOCKING, untolerated

Document = dict[str, Any]
PODS_A_WORKLOAD = 20
PRIORITIES = (0, 100, 1000)
READY = [{"type": "Ready", "status": "True"}]


def write_dump(path: Path, nodes: int, pods: int, seed: int = 0) -> None:
    """Write the cluster to *path*, one object a line, as large dumps are read best."""
    with path.open("w") as out:
        out.write('{"apiVersion": "v1", "kind": "List", "items": [\n')
        out.write(",\n".join(map(json.dumps, diverse_cluster(nodes, pods, seed))))
        out.write("\n]}\n")


def diverse_cluster(nodes: int, pods: int, seed: int = 0) -> Iterator[Document]:
    """Yield *nodes* nodes and about *pods* pods with what owns them."""
    rng = random.Random(seed)
    made = [_node(rng, number) for number in range(nodes)]
    yield from made
    for value in PRIORITIES:
        metadata = {"name": f"priority-{value}"}
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": metadata,
            "value": value,
        }
    for number in range(max(1, pods // PODS_A_WORKLOAD)):
        yield from _workload(rng, number, made)


def _node(rng: random.Random, number: int) -> Document:
    name, spot = f"node-{number:06}", number % 5 < 2
    taints = [{"key": "sla", "value": str(rng.randrange(700, 999)), "effect": "NoSchedule"}] if spot else []
    if number % 7 == 0:
        version = f"5.{rng.randrange(20)}.{rng.randrange(9)}"
        taints.append({"key": "kernel", "value": version, "effect": "NoSchedule"})
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "pool": "spot" if spot else "on-demand",
        "kernel": f"5.{number % 20}.0",
    }
    room = {"cpu": rng.choice(["16", "32", "64"]), "memory": "256Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": room, "capacity": room, "conditions": READY},
    }


def _tolerations(rng: random.Random) -> list[Document]:
    limit = rng.randrange(600, 990)
    kernel = {"key": "kernel", "operator": "SemverGt", "value": f"5.{rng.randrange(12)}.0"}
    return [
        [{"key": "sla", "operator": "Gt", "value": str(limit), "effect": "NoSchedule"}, kernel],
        [{"key": "sla", "operator": "Gt", "value": str(limit)}],
        [{"expression": f"taint.key == 'sla' && int(taint.value) > {limit}"}, kernel],
        [kernel],
        [],
    ][rng.choices(range(5), (4, 3, 2, 1, 3))[0]]


def _workload(rng: random.Random, number: int, nodes: list[Document]) -> Iterator[Document]:
    kind = rng.choices(("ReplicaSet", "StatefulSet", "Job", "DaemonSet"), (14, 3, 2, 1))[0]
    name, namespace, app = f"app-{number}", f"team-{number % 50}", {"app": f"app-{number}"}
    tolerations = _tolerations(rng)
    spec: Document = {
        "containers": [
            {
                "name": "main",
                "image": f"registry.example/app-{number}:{rng.randrange(9)}",
                "env": [{"name": "NUMBER", "value": str(number)}],
                "resources": {
                    "requests": {"cpu": f"{rng.randrange(20, 300)}m", "memory": f"{rng.randrange(64, 900)}Mi"}
                },
            }
        ],
        "priorityClassName": f"priority-{rng.choice([0, 0, *PRIORITIES])}",
        "tolerations": tolerations,
    }
    if rng.random() < 1 / 3:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 5,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": app},
            }
        ]
    places = list(_places(rng, tolerations, nodes, PODS_A_WORKLOAD, distinct=kind == "DaemonSet"))
    template = {"metadata": {"labels": app}, "spec": spec}
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{number}"}
    owned: Document = {"selector": {"matchLabels": app}, "template": template, "replicas": len(places)}
    if kind == "ReplicaSet":
        deployment = {**metadata, "uid": f"Deployment-{number}"}
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": deployment, "spec": owned}
        app = {**app, "pod-template-hash": "h"}
        owned = {
            **owned,
            "selector": {"matchLabels": app},
            "template": {**template, "metadata": {"labels": app}},
        }
        metadata |= {
            "name": f"{name}-h",
            "labels": app,
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [_owner("apps/v1", "Deployment", deployment)],
        }
    elif kind == "DaemonSet":
        hosts = sorted(place["metadata"]["name"] for place in places)
        key = {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}
        del owned["replicas"]
        terms = {"nodeSelectorTerms": [{"matchExpressions": [key]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    elif kind == "Job":
        owned = {
            "template": {**template, "spec": {**spec, "restartPolicy": "Never"}},
            "parallelism": len(places),
        }
    version = "batch/v1" if kind == "Job" else "apps/v1"
    status = {} if kind in ("Job", "DaemonSet") else {"replicas": len(places)}
    yield {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": owned, "status": status}
    if rng.random() < 0.1:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": app}},
        }
    for index, place in enumerate(places):
        pod = f"{name}-{index}"
        owner = [_owner(version, kind, metadata)]
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod,
                "namespace": namespace,
                "uid": f"{namespace}-{pod}",
                "labels": app,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": owner,
            },
            "spec": {
                **owned["template"]["spec"],
                "priority": int(spec["priorityClassName"].partition("-")[2]),
                "nodeName": place["metadata"]["name"],
            },
            "status": {"phase": "Running", "conditions": READY},
        }


def _owner(version: str, kind: str, metadata: Document) -> Document:
    return {
        "apiVersion": version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def _places(
    rng: random.Random, tolerations: list[Document], nodes: list[Document], count: int, *, distinct: bool
) -> Iterator[Document]:
    """Yield nodes whose taints are tolerated; one without taints where chance finds none."""
    wanted, used = json.dumps(tolerations), set()
    for _ in range(count):
        for _ in range(12):
            node = rng.choice(nodes)
            name = node["metadata"]["name"]
            if not (distinct and name in used) and _tolerated(wanted, json.dumps(node["spec"]["taints"])):
                used.add(name)
                yield node
                break


@lru_cache(maxsize=1 << 20)
def _tolerated(tolerations: str, taints: str) -> bool:
    have = [read(Toleration, each) for each in json.loads(tolerations)]
    carried = [read(Taint, each) for each in json.loads(taints)]
    return not untolerated(carried, have, ALL_FEATURES, BLOCKING)
