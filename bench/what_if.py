"""Cost of `weir what-if`, from a dump of a cluster whose workloads differ to the answer.

1,000 nodes with 30,000 pods: one node is tainted, then growing parts of a pool; held against parsing the same dump.
5,000 nodes with 150,000 pods: one node. A second question about a loaded cluster is held against the first, and the
forecast against a copy of the whole control plane that lives through the same change on a small cluster. Each in a
process of its own; all times are CPU times.

`python -m bench.what_if NODES PODS [SHARE …]` asks about a cluster of any size and shares of its pool.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench import Figure
from bench._command import command_cost, run_code
from bench._diverse import write_dump

SMALL, MIDDLE, LARGE = (100, 1_000), (1_000, 30_000), (5_000, 150_000)
SHARES = (0.02, 0.1, 0.4, 1.0)  #: of the pool's nodes that are tainted together
TAINT = "maintenance=1:NoExecute"

_ASK_TWICE = """
import json, sys, time
import weir
from weir.objects.core import Taint
from weir.whatif.changes import Nodes, TaintEdit
from weir.whatif.changes import Taint as TaintNodes
started = time.process_time()
cluster = weir.load(sys.argv[1])
times = []
for name in ("node-000003", "node-000004"):
    taint = TaintEdit(Taint("maintenance", "1", "NoExecute"))
    weir.what_if([TaintNodes(Nodes((name,)), (taint,))], cluster)
    times.append(time.process_time() - started)
    started = time.process_time()
print(json.dumps(times), file=sys.stderr)
"""
_LIVE = """
import json, sys, time
from weir.whatif import run as engine
if sys.argv[2] == "copy":
    engine.cluster_needs_control_plane = lambda documents: "it is compared"
from weir.cli.main import run
started = time.process_time()
run(["what-if", "taint", *sys.argv[3:], "-o", "json", "--cluster", sys.argv[1]])
print(json.dumps(time.process_time() - started), file=sys.stderr)
"""


class Answer(NamedTuple):
    """How many pods an answer names, and what it took."""

    leaving: int
    seconds: float
    mebibytes: float


def ask(dump: Path, *chosen: str) -> Answer:
    """Return what the answer about a taint of the *chosen* nodes took."""
    cost = command_cost("what-if", "taint", *chosen, TAINT, "-o", "json", "--cluster", str(dump))
    return Answer(json.loads(cost.printed)["numbers"]["leaving"], cost.seconds, cost.mebibytes)


def pool(nodes: int, share: float) -> list[str]:
    """Return the names of a *share* of the spot nodes."""
    spot = [f"node-{number:06}" for number in range(nodes) if number % 5 < 2]
    return spot[: max(1, round(share * len(spot)))]


def run() -> list[Figure]:
    """Measure and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        small, middle, large = (Path(folder) / name for name in ("small.json", "middle.json", "large.json"))
        for path, size in ((small, SMALL), (middle, MIDDLE), (large, LARGE)):
            write_dump(path, *size)
        parsing = {path: _parsing(path) for path in (middle, large)}
        one, one_of_large = ask(middle, "node-000003"), ask(large, "node-000003")
        growth = [ask(middle, *pool(MIDDLE[0], share)) for share in SHARES]
        first, second = json.loads(run_code(_ASK_TWICE, str(middle)).stderr.splitlines()[-1])
        nodes = pool(SMALL[0], 1.0)
        copy, forecast = (
            json.loads(run_code(_LIVE, str(small), way, *nodes, TAINT).stderr.splitlines()[-1])
            for way in ("copy", "forecast")
        )
    figures = []
    for (node_count, pods), cost, path in ((MIDDLE, one, middle), (LARGE, one_of_large, large)):
        words = f"one node of {node_count:,} with {pods:,} diverse pods"
        base = parsing[path]
        figures.append(
            Figure(f"{words}, CPU", cost.seconds, "s", base, base / cost.seconds, "baseline: json.loads")
        )
        figures.append(Figure(f"{words}, memory", cost.mebibytes, "MiB", target="at most 700 MiB"))
    for cost in growth:
        each = (cost.seconds - one.seconds) / max(1, cost.leaving - one.leaving) * 1000
        figures.append(
            Figure(f"{cost.leaving:,} pods leave, CPU", cost.seconds, "s", target=f"{each:.2f} ms a pod")
        )
    return [
        *figures,
        Figure(
            "second question about a loaded cluster, CPU",
            second,
            "s",
            first,
            first / second,
            "baseline: the first",
        ),
        Figure(
            f"forecast of a pool, {SMALL[0]:,} nodes with {SMALL[1]:,} pods, CPU",
            forecast,
            "s",
            copy,
            copy / forecast,
            "baseline: a copy of the control plane",
        ),
    ]


def _parsing(path: Path) -> float:
    started = time.process_time()
    json.loads(path.read_bytes())
    return time.process_time() - started


def main(nodes: int, pods: int, shares: list[float]) -> None:
    """Print what questions about one cluster cost, by the share of the pool that is tainted."""
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "cluster.json"
        write_dump(dump, nodes, pods)
        for chosen in (["node-000003"], *(pool(nodes, share) for share in shares)):
            cost = ask(dump, *chosen)
            taken = f"{cost.seconds:>8.1f} s {cost.mebibytes:>7.0f} MiB"
            print(f"{len(chosen):>7,} nodes {cost.leaving:>9,} pods leave {taken}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [float(share) for share in sys.argv[3:]])
