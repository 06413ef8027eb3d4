"""Cost of `weir --help` and of `weir explain`, from a dump of a cluster whose workloads differ to the answer.

5,000 nodes with 150,000 pods; held against parsing the same dump, a second question about the loaded cluster against
the first. Starting is held against an interpreter that only imports click. All times are CPU times, each in a
process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import Figure
from bench._command import command_cost, run_code
from bench._diverse import write_dump

NODES, PODS = 5_000, 150_000

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


_ASK_TWICE = """
import json, sys, time
import weir
started = time.process_time()
cluster = weir.load(sys.argv[1])
pod = json.load(open(sys.argv[2]))
times = []
for limit in ("950", "930"):
    pod["spec"]["tolerations"][0]["value"] = limit
    weir.explain(pod, cluster)
    times.append(time.process_time() - started)
    started = time.process_time()
print(json.dumps(times), file=sys.stderr)
"""


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
    with tempfile.TemporaryDirectory() as folder:
        dump, pod = Path(folder) / "cluster.json", Path(folder) / "pod.json"
        write_dump(dump, NODES, PODS)
        pod.write_text(json.dumps(POD))
        started = time.process_time()
        json.loads(dump.read_bytes())
        parsing = time.process_time() - started
        _, whole, memory = command_cost("explain", "-f", str(pod), "-o", "json", "--cluster", str(dump))
        first, second = json.loads(run_code(_ASK_TWICE, str(dump), str(pod)).stderr.splitlines()[-1])
    size = f"{NODES:,} nodes with {PODS:,} diverse pods"
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
            f"explain one pod on {size}, CPU",
            whole,
            "s",
            parsing,
            parsing / whole,
            "at most 4 s; baseline: json.loads",
        ),
        Figure("the same, memory", memory, "MiB", target="at most 500 MiB"),
        Figure(
            "a second question about the loaded cluster, CPU",
            second,
            "s",
            first,
            first / second,
            "at least 10 times; baseline: the first",
        ),
    ]
