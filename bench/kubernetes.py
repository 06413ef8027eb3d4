"""weir beside a real Kubernetes: the same work, by turns, in one run on this machine.

Every workload is done by both systems alternately, three rounds (`ROUNDS=5` for more, `ONLY=evict` for one), each in
a control plane of its own. A figure is the median of weir's rounds, its baseline that of Kubernetes', its ratio the
median of the rounds' ratios with their range behind it. Below it stand the processor time of all processes for each
pod, process by process, and what the load generator took of the machine.
The clients are on client-go (bench/clientgo), with uniform and with diverse pods, both systems over TLS. The workloads
after those have a generator (bench/_generator.py) whose requests are alike: README shows none of them.
Needs the real binaries (`make kubernetes`, or KUBERNETES_BIN), Go and etcd, and says so where there are none.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import Figure
from bench._client_go import asked, program
from bench._systems import Start, System, is_kubernetes_built, kubernetes, weir
from bench._workloads import (
    Measured,
    claimed,
    evicted,
    fanned_out,
    held,
    rolled_out,
)

ROUNDS = 3
WORKLOAD_CONTROLLERS = ("deployment", "replicaset", "job")


@dataclass(frozen=True, slots=True)
class Workload:
    """One piece of work, what is claimed of it, and the controllers it needs on both sides."""

    figure: str
    unit: str
    measure: Callable[[System], Measured]
    aim: float  #: how many times better than Kubernetes
    controllers: tuple[str, ...] = ()
    is_less_better: bool = False
    rounds: int | None = None  #: where not as many as of the others


WORKLOADS = (
    *(
        Workload(f"{words}, {pods} pods", unit, measure, aim, controllers, is_less_better=unit == "ms")
        for pods, diverse in (("uniform", False), ("diverse", True))
        for words, unit, measure, aim, controllers in (
            ("created", "1/s", asked("create", 2_000, diverse=diverse), 2, ()),
            (
                "created and bound on 1,000 nodes",
                "pods/s",
                asked("bound", 2_000, diverse=diverse, nodes=1_000),
                3,
                (),
            ),
            ("list of 5,000", "ms", asked("list", 5_000, diverse=diverse, seconds=True), 1.5, ()),
            ("informer of 5,000", "ms", asked("informer", 5_000, diverse=diverse, seconds=True), 1.5, ()),
            (
                "of Deployments, bound",
                "pods/s",
                asked("deployments", 1_000, diverse=diverse, nodes=200),
                3,
                WORKLOAD_CONTROLLERS,
            ),
            (
                "of Jobs, bound",
                "pods/s",
                asked("jobs", 1_000, diverse=diverse, nodes=200),
                3,
                WORKLOAD_CONTROLLERS,
            ),
        )
    ),
    Workload(
        "2,000 pods with claim templates on 200 nodes, created to bound",
        "pods/s",
        claimed(200, 2_000),
        8,
        ("resourceclaim",),
    ),
    Workload("events to 100 watchers", "1/s", fanned_out(100, 300), 5),
    Workload(
        "10,000 pods evicted by a taint on 100 nodes",
        "s",
        evicted(100, 100),
        5,
        ("taint-eviction",),
        is_less_better=True,
    ),
    Workload(
        "rollout of a Deployment with 1,000 replicas",
        "s",
        rolled_out(1_000),
        5,
        ("deployment", "replicaset"),
        is_less_better=True,
    ),
    Workload(
        "memory with 5,000 nodes and 50,000 pods",
        "MiB",
        held(5_000, 50_000),
        2,
        is_less_better=True,
        rounds=1,
    ),
)


def run() -> list[Figure]:
    if not is_kubernetes_built():
        return []
    if program() is None:
        print("the clients of the bench are on client-go, which needs Go", file=sys.stderr)
        return []
    rounds, only = int(os.environ.get("ROUNDS", ROUNDS)), os.environ.get("ONLY", "")
    figures: list[Figure] = []
    for workload in WORKLOADS:
        if only in workload.figure:
            figures += beside(workload, workload.rounds or rounds)
    return figures


def beside(workload: Workload, rounds: int) -> list[Figure]:
    """Give both systems the same work by turns."""
    real: list[Measured] = []
    own: list[Measured] = []
    for number in range(rounds):
        for start, found in ((kubernetes, real), (weir, own)):
            if sys.stderr.isatty():
                print(
                    f"{workload.figure}: round {number + 1} of {rounds}, {start.__name__} …", file=sys.stderr
                )
            found.append(_once(start, workload))
    return figures_of(workload, real, own)


def _once(start: Start, workload: Workload) -> Measured:
    with start(workload.controllers) as system:
        try:
            return workload.measure(system)
        except TimeoutError as error:
            ended = f"; ended: {', '.join(system.ended())}" if system.ended() else ""
            raise SystemExit(f"{workload.figure}, {start.__name__}: {error}{ended}") from None


def figures_of(workload: Workload, real: Sequence[Measured], own: Sequence[Measured]) -> list[Figure]:
    """Return the figure of a workload and what each system paid for it."""
    ratios = sorted(
        theirs.value / ours.value if workload.is_less_better else ours.value / theirs.value
        for theirs, ours in zip(real, own, strict=True)
    )
    aim = f"ratios {ratios[0]:.2f} to {ratios[-1]:.2f}, aim {workload.aim:g}"
    value, baseline = (statistics.median(one.value for one in side) for side in (own, real))
    costs = [_cost(side) for side in (own, real)]
    spent, theirs = (sum(cost.values()) for cost in costs)
    figures = [
        Figure(workload.figure, value, workload.unit, baseline, statistics.median(ratios), aim),
        Figure(
            "  processor time for each, all processes", spent, "µs", theirs, theirs / spent if spent else None
        ),
    ]
    for side, cost in zip(("weir", "Kubernetes"), costs, strict=True):
        figures += [Figure(f"    {side}: {name}", paid, "µs") for name, paid in cost.items()]
    for side, found in (("weir", own), ("Kubernetes", real)):
        share = statistics.median(one.generator for one in found) * 100
        figures.append(
            Figure(f"  the generator's part of the machine, {side}", share, "%", target="below 10")
        )
    return figures


def _cost(side: Sequence[Measured]) -> dict[str, float]:
    """Return the microseconds each process took for one pod, the median of the rounds."""
    return {
        name: statistics.median(one.cpu[name] / max(one.count, 1) * 1e6 for one in side)
        for name in side[0].cpu
    }
