"""A day of a cluster under virtual time: spot nodes grow riskier and calmer, nodes fail and come back.

One node in five is a spot node whose taint `failure-probability` changes all day; what tolerates less has to go and is
placed elsewhere. Every hour a node falls silent for twenty minutes. The story is a function of its seed.
"""

from __future__ import annotations

import hashlib
import random
import resource
import time
from dataclasses import dataclass

from bench import Figure
from weir.simulation.cluster import Cluster
from weir.simulation.kubelet.node_classes import FAILED

NODES, HOURS, STEP_MINUTES, PODS_EACH = 1_000, 24, 5, 25
CALM, RISKY = "failure-probability=10:NoExecute", "failure-probability=25:NoExecute"


@dataclass(frozen=True)
class Day:
    """What happened."""

    seconds: float
    cpu_seconds: float
    set_up_cpu_seconds: float  #: of these, until every node and pod was there
    evictions: int
    failures: int
    running: int
    megabytes: float
    history: bytes  #: everything there is at the end, as a fingerprint


def run() -> list[Figure]:
    day = live_through(NODES, HOURS)
    name = f"a day of {NODES:,} nodes with taint churn"
    return [
        Figure(name, day.seconds, "s", 60.0, 60.0 / day.seconds, "at most 60 s"),
        Figure("  of processor time", day.cpu_seconds, "s"),
        Figure("  pods evicted and placed again", day.evictions, "pods"),
        Figure("  nodes that fell silent and came back", day.failures, "nodes"),
        Figure("  memory of the process", day.megabytes, "MB"),
    ]


def live_through(nodes: int, hours: int, *, churn: bool = True, seed: int = 1, replicas: int = 0) -> Day:
    """Let so many hours pass for so many nodes; return what came of it.

    Without *churn* no taint changes: nodes report, and one an hour falls silent.
    """
    chance = random.Random(seed)
    began, cpu = time.perf_counter(), time.process_time()
    spots = max(nodes // 5, 2)
    replicas = replicas or nodes
    failures = 0
    with Cluster(seed=seed) as cluster:
        cluster.add_nodes(
            nodes - spots,
            name="steady",
            node_class="on-demand",
            taints=["failure-probability=2:NoExecute"],
            labels={"kind": "steady"},
        )
        cluster.add_nodes(spots, name="spot", node_class="spot", taints=[CALM], labels={"kind": "spot"})
        cluster.advance(30)
        for number in range(max(replicas // PODS_EACH, 1)):
            cluster.apply(_deployment(f"batch-{number}", PODS_EACH, "20", "spot"))
            if number % 2:
                cluster.apply(_deployment(f"payment-{number}", PODS_EACH, "5", "steady"))
        cluster.advance(60)
        set_up = time.process_time() - cpu
        risky: list[str] = []
        silent: str | None = None
        for step in range(hours * 60 // STEP_MINUTES):
            for node in risky:
                cluster.taint(node, CALM)
            moving = max(spots // 100, 1) if churn else 0
            risky = [f"spot-{number}" for number in chance.sample(range(spots), moving)]
            for node in risky:
                cluster.taint(node, RISKY)
            if step % 12 == 2:
                silent = f"steady-{chance.randrange(nodes - spots)}"
                cluster.patch("Node", silent, {"metadata": {"annotations": {FAILED: "true"}}})
                failures += 1
            elif step % 12 == 6 and silent is not None:
                cluster.patch("Node", silent, {"metadata": {"annotations": {FAILED: None}}})
            cluster.advance(STEP_MINUTES * 60)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
        evictions = int(cluster.plane.controllers.metrics.pod_deletions.child().value)
        pods = cluster.list("Pod")
        running = sum(pod["status"].get("phase") == "Running" for pod in pods)
        return Day(
            seconds,
            cpu_seconds,
            set_up,
            evictions,
            failures,
            running,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            hashlib.sha256(cluster.history()).digest(),
        )


def _deployment(name: str, replicas: int, below: str, where: str) -> dict[str, object]:
    labels = {"app": name}
    toleration = {"key": "failure-probability", "operator": "Lt", "value": below, "effect": "NoExecute"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": containers, "tolerations": [toleration], "nodeSelector": {"kind": where}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
