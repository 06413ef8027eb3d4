"""What does a question about a large cluster cost? `weir what-if` from a raw dump to its answer.

5,000 nodes with 30 pods on each, 3,000 Deployments, one line of JSON (as the API serves it) and many lines (as kubectl
writes it); one node is tainted and its pods leave. Held against parsing the same dump. How the cost grows: a cluster of
a quarter the size, and a change of twenty nodes instead of one. Each in a process of its own; times are CPU times.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import Figure

NODES, PODS_PER_NODE, REPLICAS = 5_000, 30, 50


def documents(nodes: int) -> list[dict[str, Any]]:
    """Return a cluster: nodes, Deployments with their ReplicaSets, and their pods, spread over all nodes."""
    found: list[dict[str, Any]] = []
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    for number in range(nodes):
        name = f"node-{number:05}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 3}"}
        taints = [{"key": "sla", "value": str(800 + number % 150), "effect": "NoSchedule"}]
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "uid": name, "labels": labels},
                "spec": {"taints": taints} if number % 2 else {},
                "status": {"allocatable": amounts, "conditions": ready},
            }
        )
    pods = nodes * PODS_PER_NODE
    apps = pods // REPLICAS
    for number in range(apps):
        found += _workload(number)
    for number in range(pods):
        app = number % apps
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{app}-h", "uid": f"rs-{app}"}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"app-{app}-h-{number}",
                    "namespace": f"ns-{app % 100}",
                    "uid": f"pod-{number}",
                    "labels": {"app": f"app-{app}", "pod-template-hash": "h"},
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "ownerReferences": [{**owner, "controller": True}],
                },
                "spec": {**_pod_spec(app), "nodeName": f"node-{number % nodes:05}"},
                "status": {"phase": "Running", "conditions": ready},
            }
        )
    return found


def _pod_spec(app: int) -> dict[str, Any]:
    requests = {"cpu": f"{100 + app % 3 * 50}m", "memory": "256Mi"}
    tolerated = {"key": "sla", "operator": "Gt", "value": "790", "effect": "NoSchedule"}
    return {
        "containers": [{"name": "c", "image": "registry/app", "resources": {"requests": requests}}],
        "tolerations": [tolerated],
    }


def _workload(app: int) -> list[dict[str, Any]]:
    name, namespace = f"app-{app}", f"ns-{app % 100}"
    labels = {"app": name, "pod-template-hash": "h"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"dep-{app}"}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": _pod_spec(app)}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "uid": f"dep-{app}"},
        "spec": {**spec, "template": template},
    }
    replicaset = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-h",
            "namespace": namespace,
            "uid": f"rs-{app}",
            "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {"labels": labels}},
        },
        "status": {"replicas": REPLICAS},
    }
    return [deployment, replicaset]


_ASK = """
import json, resource, sys, time
from weir.whatif import run
engine = []
plain = run._run
def timed(*given):
    started = time.process_time()
    found = plain(*given)
    engine.append(time.process_time() - started)
    return found
run._run = timed
from weir.cli.main import run as weir
try:
    weir(["what-if", "taint", *sys.argv[2:], "hot=1:NoExecute", "-o", "json", "--cluster", sys.argv[1]])
except SystemExit:
    pass
used = resource.getrusage(resource.RUSAGE_SELF)
# The most that rusage knows is what the process that started this one took.
(most,) = (int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([used.ru_utime + used.ru_stime, sum(engine), most / 1024]), file=sys.stderr)
"""


def ask(dump: Path, *nodes: str) -> tuple[float, float, float]:
    """Return the CPU seconds of an answer, those that the copy ran, and the most MiB it took."""
    asked = subprocess.run(
        [sys.executable, "-c", _ASK, str(dump), *nodes], check=True, capture_output=True, text=True
    )
    leaving = json.loads(asked.stdout)["leaving"]
    assert len(leaving) == PODS_PER_NODE * len(nodes), f"{len(leaving)} pods leave"
    whole, engine, memory = json.loads(asked.stderr.splitlines()[-1])
    return whole, engine, memory


def run() -> list[Figure]:
    """Measure and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        line, lines, small = (Path(folder) / name for name in ("line.json", "lines.json", "small.json"))
        listed = {"apiVersion": "v1", "kind": "List", "items": documents(NODES)}
        line.write_text(json.dumps(listed))
        lines.write_text(json.dumps(listed, indent=4))
        small.write_text(json.dumps({**listed, "items": documents(NODES // 4)}))
        del listed
        started = time.process_time()
        json.loads(line.read_bytes())
        parsing = time.process_time() - started
        whole, engine, memory = ask(line, "node-00007")
        many_lines, _, memory_of_lines = ask(lines, "node-00007")
        more, engine_of_more, _ = ask(line, *(f"node-{number:05}" for number in range(20)))
        quarter, engine_of_quarter, _ = ask(small, "node-00007")
    size = f"{NODES:,} nodes with {NODES * PODS_PER_NODE:,} pods"
    return [
        Figure(
            f"{size}, raw JSON to answer, CPU",
            whole,
            "s",
            parsing,
            parsing / whole,
            "at most 10 s; baseline: json.loads",
        ),
        Figure("the same, running the copy, CPU", engine, "s", target="at most 2 s"),
        Figure("the same, memory", memory, "MiB", target="at most 800 MiB"),
        Figure(
            "the same from many lines, CPU",
            many_lines,
            "s",
            whole,
            whole / many_lines,
            "at most 10 s; baseline: one line",
        ),
        Figure("the same from many lines, memory", memory_of_lines, "MiB", target="at most 800 MiB"),
        Figure("20 nodes tainted instead of one, CPU", more, "s", whole, whole / more, "baseline: one node"),
        Figure(
            "the same, running the copy, CPU",
            engine_of_more,
            "s",
            engine,
            engine / engine_of_more,
            "baseline: one node",
        ),
        Figure("a quarter of the cluster, CPU", quarter, "s", whole, whole / quarter, "baseline: the whole"),
        Figure(
            "the same, running the copy, CPU",
            engine_of_quarter,
            "s",
            engine,
            engine / engine_of_quarter,
            "baseline: the whole",
        ),
    ]
