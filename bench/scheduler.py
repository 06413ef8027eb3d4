"""Placements per second of the scheduling engine: 50 pod classes mixed, default plugins, accounting after each.

The baseline is a plain per-node loop over the same nodes (a few placements, scaled), in the same run. The engine is one
thread that waits for nothing: seconds are those of its core, so that other programs of the machine do not count.
"""

from __future__ import annotations

import gc
import random
import time

import msgspec

from bench import Figure
from weir.gates import ALL_FEATURES
from weir.objects.core import LabelSelector, Node, Pod, read
from weir.observe.interpreter import calm_collector
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.pod_class import PodClass

ZONE = "topology.kubernetes.io/zone"


class _Workloads:
    """What selects the pods of each workload, and so spreads them over hosts and zones by default."""

    version = 0

    def __call__(self, pod: PodClass) -> LabelSelector | None:
        return LabelSelector({"app": pod.labels["app"]})


def node(rng: random.Random, number: int) -> Node:
    cores = rng.choice((4, 8, 16, 32, 64, 96))
    taints = []
    if rng.random() < 0.5:
        taints.append({"key": "sla", "value": str(rng.randrange(1000)), "effect": "NoSchedule"})
    if rng.random() < 0.2:
        taints.append({"key": "spot", "effect": "PreferNoSchedule"})
    return read(
        Node,
        {
            "metadata": {
                "name": f"node-{number}",
                "labels": {
                    "kubernetes.io/hostname": f"node-{number}",
                    ZONE: f"zone-{number % 10}",
                    "gen": str(rng.randrange(1, 9)),
                },
            },
            "spec": {"taints": taints},
            "status": {
                "allocatable": {
                    "cpu": str(cores),
                    "memory": f"{cores * rng.choice((2, 4, 8))}Gi",
                    "pods": "110",
                }
            },
        },
    )


def pod(rng: random.Random, number: int, extra: str = "") -> Pod:
    tolerations: list[dict[str, str]] = [
        {"key": "sla", "operator": "Gt", "value": str(rng.randrange(900))},
        {"key": "gpu", "operator": "Exists"},
    ]
    if extra == "semver":
        tolerations.append({"key": "kernel", "operator": "SemverGt", "value": f"5.{rng.randrange(20)}.0"})
    if extra == "cel":
        tolerations.append({"expression": f"taint.key.startsWith('env.example.com/{rng.randrange(50)}')"})
    spec = {
        "tolerations": tolerations,
        "containers": [
            {
                "name": "c",
                "image": "app:v1",
                "resources": {
                    "requests": {
                        "cpu": rng.choice(["50m", "100m", "250m", "500m", "1"]),
                        "memory": rng.choice(["64Mi", "128Mi", "256Mi", "512Mi", "1Gi"]),
                    }
                },
            }
        ],
    }
    app = {"matchLabels": {"app": f"app-{number}"}}
    if extra == "spread":
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app},
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": app},
        ]
    if extra == "affinity":
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": app}
        near = {"weight": 50, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": app}}
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [near]},
        }
    labels = {"app": f"app-{number}"}
    return read(Pod, {"metadata": {"name": "p", "namespace": "default", "labels": labels}, "spec": spec})


def placements(nodes: int, pods: int, classes: int = 50, extra: str = "") -> float:
    """Return pods placed per second, with every class already known and the collector set as in the scheduler."""
    rng = random.Random(5)
    engine = Engine(ALL_FEATURES, default_selector=_Workloads() if extra == "default spread" else None)
    for number in range(nodes):
        engine.table.put_node(node(rng, number))
    kinds = [pod(rng, number, extra) for number in range(classes)]
    order = [msgspec.structs.replace(rng.choice(kinds)) for _ in range(pods)]
    for kind in kinds:
        engine.place(kind)
    calm_collector()
    started = time.process_time()
    for number, each in enumerate(order):
        answer = engine.place(each)
        if isinstance(answer, Placement):
            engine.assume(str(number), each, answer.node)
    rate = pods / (time.process_time() - started)
    gc.unfreeze()
    return rate


def best(nodes: int, pods: int, extra: str = "", rounds: int = 2) -> float:
    """Return the best of a few rounds: a machine is seldom quiet for long."""
    return max(placements(nodes, pods, extra=extra) for _ in range(rounds))


def plain(nodes: int) -> float:
    """Return pods per second of a loop that looks at every node for every pod, the same way without columns."""
    from weir.objects.requests import node_allocatable, pod_requests
    from weir.taints.toleration import untolerated

    rng = random.Random(5)
    cluster = [node(rng, number) for number in range(nodes)]
    used = [{"cpu": 0, "memory": 0} for _ in cluster]
    kinds = [pod(rng, number) for number in range(50)]
    started = time.process_time()
    count = max(2, 2000 // max(nodes // 10, 1))
    for _ in range(count):
        each = rng.choice(kinds)
        wanted = pod_requests(each)
        best, best_score = None, -1
        for number, here in enumerate(cluster):
            if untolerated(here.taints, each.tolerations, ALL_FEATURES):
                continue
            have = node_allocatable(here) or {}
            if any(used[number][r] + wanted[r] > have[r] for r in wanted):
                continue
            score = sum((have[r] - used[number][r] - wanted[r]) * 100 // have[r] for r in wanted)
            if score > best_score:
                best, best_score = number, score
        if best is not None:
            for resource, amount in wanted.items():
                used[best][resource] += amount
    return count / (time.process_time() - started)


def run() -> list[Figure]:
    loop = {nodes: plain(nodes) for nodes in (1_000, 5_000)}
    loop[100_000] = loop[5_000] / 20
    rates = {nodes: best(nodes, 20_000) for nodes in (1_000, 5_000, 100_000)}
    figures = [
        Figure(f"50 classes mixed, {nodes:,} nodes", rate, "pods/s", loop[nodes], rate / loop[nodes], target)
        for (nodes, rate), target in zip(
            rates.items(), ("", "at least 20,000", "at least 10,000"), strict=True
        )
    ]
    growth = rates[1_000] / rates[100_000]
    figures.append(
        Figure("cost of a pod at 100,000 nodes against 1,000", growth, "×", 3, 3 / growth, "at most 3")
    )
    for extra in ("spread", "default spread", "affinity", "semver", "cel"):
        rate = best(5_000, 3_000, extra)
        figures.append(
            Figure(
                f"with {extra}, 5,000 nodes",
                rate,
                "pods/s",
                loop[5_000],
                rate / loop[5_000],
                "at least 2,000",
            )
        )
    return figures
