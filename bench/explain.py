"""`weir --help` opens fast, and explaining a pod costs what is distinct, not what is there.

5,000 nodes with 150 distinct taints and 20 label sets, 30 pods on each; held against the time it takes
to turn the same parsed dump into a World. Starting is held against an interpreter that only imports click. All
times are CPU times.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Any

from bench import Figure
from weir.explain.pod import explain
from weir.gates import ALL_FEATURES
from weir.world import World

NODES, PODS_PER_NODE = 5_000, 30

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
        "tolerations": [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.3.0"]}]}
                    ]
                }
            }
        },
    },
}


def documents(nodes: int = NODES, pods_per_node: int = PODS_PER_NODE) -> list[dict[str, Any]]:
    """Return a cluster as it comes out of a dump: every object its own."""
    documents: list[dict[str, Any]] = []
    for number in range(nodes):
        name = f"node-{number:05}"
        taint = {"key": "sla", "value": str(800 + number % 150), "effect": "NoSchedule"}
        documents.append(
            {
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kernel": f"5.{number % 20}.0", "hostname": name}},
                "spec": {"taints": [{**taint, "timeAdded": f"2026-01-01T00:00:{number % 60:02}Z"}]},
                "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
            }
        )
        requests = {"cpu": f"{100 + number % 3 * 50}m", "memory": "256Mi"}
        documents += [
            {
                "kind": "Pod",
                "metadata": {"name": f"{name}-{each}"},
                "spec": {
                    "nodeName": name,
                    "containers": [{"name": "c", "resources": {"requests": requests}}],
                },
                "status": {"phase": "Running"},
            }
            for each in range(pods_per_node)
        ]
    return documents


def start_seconds(code: str, repeat: int = 10) -> float:
    """Return the CPU seconds of the fastest of several runs of *code* in a new interpreter."""
    best = float("inf")
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def run() -> list[Figure]:
    """Measure and return the figures."""
    help_time = start_seconds("from weir.cli.main import run; run(['--help'])")
    click_time = start_seconds("import click")
    dump = documents()
    started = time.process_time()
    cluster = World.of(dump)
    reading = time.process_time() - started
    list(map(cluster.pods_on, cluster.nodes))  # built once per World, not part of the answer
    started = time.process_time()
    answer = explain(POD, cluster, ALL_FEATURES)
    whole = time.process_time() - started
    assert answer.fix is not None
    size = f"{NODES:,} nodes with {NODES * PODS_PER_NODE:,} pods"
    return [
        Figure(
            "weir --help, CPU",
            help_time,
            "s",
            click_time,
            click_time / help_time,
            "at most 0.25 s; baseline: import click",
        ),
        Figure(
            f"explain one pod on {size}, fix included, CPU",
            whole,
            "s",
            reading,
            reading / whole,
            "at most 2 s; baseline: turning the parsed dump into a World",
        ),
    ]
