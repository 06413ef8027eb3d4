"""Every pod on every node: the table against the plain nested loop, and how it grows.

5,000 nodes with 200 distinct taint lists, 150,000 pods with 500 distinct toleration lists. Each pod and node has its
own objects, as decoded from an API. The plain loop is measured on a sample and scaled: whole it would take hours.
"""

from __future__ import annotations

import random
import time
import tracemalloc

from bench import Figure
from weir.gates import ALL_FEATURES
from weir.objects.core import Taint, Toleration
from weir.taints.many import ToleranceTable
from weir.taints.toleration import untolerated

KEYS = ["sla", "gpu-compute-score", "failure-probability", "kernel", "team"]
OPERATORS = ["Gt", "Lt", "Equal", "Exists", "SemverGt", "SemverLt"]


def cluster(
    nodes: int, pods: int, taint_lists: int, toleration_lists: int
) -> tuple[list[tuple[Taint, ...]], list[tuple[Toleration, ...]]]:
    """Return random taints by node and tolerations by pod, with as many distinct lists as asked."""
    rng = random.Random(5471)

    def value(key: str) -> str:
        return f"5.{rng.randrange(20)}.{rng.randrange(9)}" if key == "kernel" else str(rng.randrange(1000))

    def taints(n: int) -> list[tuple[str, str, str]]:
        return [("class", str(n), "NoSchedule")] + [
            (key, value(key), rng.choice(["NoSchedule", "NoExecute"]))
            for key in rng.sample(KEYS, rng.randrange(3))
        ]

    def tolerations(n: int) -> list[tuple[str, str, str]]:
        asked = [(key, rng.choice(OPERATORS), value(key)) for key in rng.sample(KEYS, rng.randrange(1, 5))]
        return [("class", "Exists", ""), ("pod-class", "Equal", str(n)), *asked]

    node_kinds = [taints(n) for n in range(taint_lists)]
    pod_kinds = [tolerations(n) for n in range(toleration_lists)]
    return (
        [tuple(Taint(*entry) for entry in rng.choice(node_kinds)) for _ in range(nodes)],
        [tuple(Toleration(*entry) for entry in rng.choice(pod_kinds)) for _ in range(pods)],
    )


def seconds(nodes: list[tuple[Taint, ...]], pods: list[tuple[Toleration, ...]]) -> float:
    """Return how long the whole answer takes, packed to bits."""
    started = time.perf_counter()
    ToleranceTable(nodes, pods, ALL_FEATURES).packed()
    return time.perf_counter() - started


def run() -> list[Figure]:
    nodes, pods = cluster(5_000, 150_000, 200, 500)
    engine = min(seconds(nodes, pods) for _ in range(3))

    sample_nodes, sample_pods = nodes[:100], pods[:200]
    started = time.perf_counter()
    for pod in sample_pods:
        for node in sample_nodes:
            untolerated(node, pod, ALL_FEATURES)
    plain = (
        (time.perf_counter() - started) * (len(nodes) * len(pods)) / (len(sample_nodes) * len(sample_pods))
    )

    tracemalloc.start()
    ToleranceTable(nodes, pods, ALL_FEATURES).packed()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()

    twice = min(seconds(nodes * 2, pods * 2) for _ in range(2))
    distinct_nodes, distinct_pods = cluster(5_000, 150_000, 400, 1_000)
    distinct = min(seconds(distinct_nodes, distinct_pods) for _ in range(2))
    return [
        Figure("5,000 nodes × 150,000 pods, whole answer", engine, "s", plain, plain / engine, "at most 1 s"),
        Figure("peak memory of that", peak, "MiB", 1024, 1024 / peak, "at most 1 GiB"),
        Figure("the same with twice the nodes and pods (4 × the pairs)", twice, "s", engine, engine / twice),
        Figure("the same with twice the distinct lists", distinct, "s", engine, engine / distinct),
    ]
