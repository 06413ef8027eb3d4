"""Asking beside doing: `weir what-if` of a tainted pool, and the same taint on a real Kubernetes.

1,000 nodes with 10,000 pods of 500 ReplicaSets that differ in requests, labels and tolerations. Every third node is
tainted: its pods are evicted, made again and bound elsewhere. Doing is timed from the first request until the last new
pod has a node; no kubelet runs, so nothing is started or ended slowly. Asking is timed from the start of the process,
with the cluster read from a dump. Both are times of a clock, so nothing else may run.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import Figure
from bench._command import command_cost
from bench._generator import Generator, Target
from bench._systems import Start, System, is_kubernetes_built, kubernetes

Document = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
PLACED = f"{PODS}?fieldSelector=spec.nodeName%21%3D"
MERGE_PATCH = "application/merge-patch+json"
READY_STATUS = {
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("Ready", "ContainersReady", "Initialized", "PodScheduled")
        ],
    }
}
NODES, PODS_IN_ALL, A_REPLICASET = 1_000, 10_000, 20
REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets"
TAINT = "maintenance=1:NoExecute"
CONTROLLERS = ("taint-eviction", "replicaset")


def run() -> list[Figure]:
    """Measure and return the figures; none without a real Kubernetes."""
    return beside(kubernetes, NODES, PODS_IN_ALL) if is_kubernetes_built() else []


def beside(start: Start, nodes: int, pods: int) -> list[Figure]:
    """Return what doing and asking take; both must move the same number of pods."""
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "cluster.json"
        with start(CONTROLLERS) as system:
            moved, doing = _do(system, nodes, pods, dump)
        began = time.perf_counter()
        cost = command_cost(
            "what-if", "taint", "-l", "pool=spot", TAINT, "-o", "json", "--cluster", str(dump)
        )
        asking = time.perf_counter() - began
    leaving = json.loads(cost.printed)["numbers"]["leaving"]
    assert leaving == moved, (leaving, moved)
    words = f"{moved:,} of {pods:,} pods leave {nodes:,} nodes"
    return [
        Figure(f"{words}, asked", asking, "s", doing, doing / asking, "baseline: done by Kubernetes"),
        Figure("  processor time of asking", cost.seconds, "s"),
    ]


def _do(system: System, nodes: int, pods: int, dump: Path) -> tuple[int, float]:
    """Write the cluster to *dump*, taint its pool, and return how many pods went, and after how long all were bound."""
    with Generator(Target.at(system.server, system.token)) as generator:
        target = generator.target
        _create_nodes(generator, [_node(number) for number in range(nodes)])
        bound = generator.watch(PLACED, "ADDED")
        generator.finish(
            target.request("POST", REPLICASETS, _replicaset(number)) for number in range(pods // A_REPLICASET)
        )
        generator.run(lambda: bound.count >= pods)
        there = json.loads(generator.ask(target.request("GET", PODS)))["items"]
        generator.finish(
            target.request("PATCH", f"{PODS}/{pod['metadata']['name']}/status", READY_STATUS, MERGE_PATCH)
            for pod in there
        )
        system.rest(generator.read)
        objects: list[Document] = []
        for path, kind in (("/api/v1/nodes", "Node"), (REPLICASETS, "ReplicaSet"), (PODS, "Pod")):
            version = "apps/v1" if kind == "ReplicaSet" else "v1"
            items = json.loads(generator.ask(target.request("GET", path)))["items"]
            objects += [{"apiVersion": version, "kind": kind, **item} for item in items]
        dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        pool = {f"node-{number}" for number in range(nodes) if _is_spot(number)}
        leaving = sum(each["kind"] == "Pod" and each["spec"]["nodeName"] in pool for each in objects)
        taint = {"spec": {"taints": [{"key": "maintenance", "value": "1", "effect": "NoExecute"}]}}
        before = bound.count
        began = time.perf_counter()
        generator.send(
            target.request("PATCH", f"/api/v1/nodes/{name}", taint, MERGE_PATCH) for name in sorted(pool)
        )
        generator.run(lambda: bound.count >= before + leaving)
        return leaving, time.perf_counter() - began


def _create_nodes(generator: Generator, nodes: list[Document]) -> None:
    """Make a namespace that takes pods, and nodes without the taint that admission gives to new ones."""
    target = generator.target
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    generator.ask(target.request("POST", "/api/v1/namespaces/default/serviceaccounts", account))
    generator.finish(target.request("POST", "/api/v1/nodes", node) for node in nodes)
    taints = (
        (node["metadata"]["name"], {"spec": {"taints": node["spec"].get("taints", [])}}) for node in nodes
    )
    generator.finish(
        target.request("PATCH", f"/api/v1/nodes/{name}", taint, MERGE_PATCH) for name, taint in taints
    )


def _is_spot(number: int) -> bool:
    return number % 3 == 0


def _node(number: int) -> Document:
    name, amounts = f"node-{number}", {"cpu": "32", "memory": "64Gi", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{number % 5}",
        "pool": "spot" if _is_spot(number) else "other",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": []},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _replicaset(number: int) -> Document:
    labels = {"app": f"app-{number}"}
    requests = {"cpu": f"{(1 + number % 5) * 50}m", "memory": f"{(1 + number % 7) * 64}Mi"}
    tolerations = [{"key": "sla", "operator": "Gt", "value": str(number), "effect": "NoSchedule"}]
    spec = {
        "containers": [{"name": "c", "image": f"app-{number}:v1", "resources": {"requests": requests}}],
        "tolerations": tolerations,
        "terminationGracePeriodSeconds": 0,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": f"app-{number}"},
        "spec": {
            "replicas": A_REPLICASET,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


if __name__ == "__main__":
    from bench._systems import weir

    print(beside(weir, int(sys.argv[1]), int(sys.argv[2])))
