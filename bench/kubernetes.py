"""weir beside a real Kubernetes: the same work, by turns, in one run on this machine.

Every workload is done by both systems alternately, three rounds (`ROUNDS=5` for more, `ONLY=evict` for one), each in
a control plane of its own. A figure is the median of weir's rounds, its baseline that of Kubernetes', its ratio the
median of the rounds' ratios with their range behind it. Below it stand the processor time of all processes for each
pod, process by process, and what the load generator took of the machine.
The clients are on client-go (bench/clientgo), with uniform and with diverse pods, both systems over TLS; a current
etcd is built from its Go module (bench/etcd.sh) and runs with its defaults.
Needs the real binaries (`make kubernetes`, or KUBERNETES_BIN) and Go, and says so where there are none.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench import Figure
from bench._client_go import Measured, Step, measure, program
from bench._systems import Start, is_kubernetes_built, kubernetes, weir

ROUNDS = 3
_SIDES = ("weir", "Kubernetes")
WARM = 32
WORKLOAD_CONTROLLERS = ("deployment", "replicaset", "job")


@dataclass(frozen=True, slots=True)
class Workload:
    """One piece of work, what is claimed of it, and the controllers it needs on both sides."""

    figure: str
    unit: str
    aim: float  #: how many times better than Kubernetes
    work: Step
    before: tuple[Step, ...] = ()
    controllers: tuple[str, ...] = ()
    diverse: bool = False
    rounds: int | None = None  #: where not as many as of the others

    @property
    def is_less_better(self) -> bool:
        return self.unit in ("ms", "s", "MiB")


def _nodes(count: int) -> Step:
    return Step("nodes", count)


def _warm(mode: str) -> Step:
    return Step(mode, WARM, prefix="w")


def _workloads(diverse: bool) -> Sequence[Workload]:
    """Return the work of one variety of pods, each warmed up by a little of the same."""
    held = (_nodes(0), Step("create", 5_000))
    on_hundred = ("-nodes", "100")
    pods = f"{'diverse' if diverse else 'uniform'} pods"
    rows: tuple[tuple[str, str, float, Step, tuple[Step, ...], tuple[str, ...]], ...] = (
        ("created", "1/s", 2, Step("create", 2_000), (_nodes(0), _warm("create")), ()),
        ("created and bound on 1,000 nodes", "pods/s", 3,
         Step("bound", 2_000), (_nodes(1_000), _warm("bound")), ()),
        ("created and bound on 5,000 nodes", "pods/s", 3,
         Step("bound", 2_000), (_nodes(5_000), _warm("bound")), ()),
        ("list of 5,000", "ms", 1.5, Step("list", 5_000), held, ()),
        ("informer of 5,000", "ms", 1.5, Step("informer", 5_000), held, ()),
        ("events to 20 informers", "1/s", 1.5, Step("watch", 500, ("-watchers", "20")), (_nodes(0),), ()),
        ("of Deployments, bound", "pods/s", 3,
         Step("deployments", 1_000), (_nodes(200), _warm("deployments")), WORKLOAD_CONTROLLERS),
        ("of Jobs, bound", "pods/s", 3,
         Step("jobs", 1_000), (_nodes(200), _warm("jobs")), WORKLOAD_CONTROLLERS),
        ("with claims, bound", "pods/s", 3,
         Step("claims", 1_000), (_nodes(200), Step("devices", 200), _warm("claims")), ("resourceclaim",)),
        ("5,000 evicted by a taint", "s", 3,
         Step("evict", 5_000, on_hundred), (_nodes(100), Step("placed", 5_000, on_hundred)), ("taint-eviction",)),
        ("1,000 rolled out", "s", 3,
         Step("rollout", 1_000), (_nodes(100), Step("ready", 1_000)), WORKLOAD_CONTROLLERS),
    )  # fmt: skip
    return [
        Workload(f"{words}, {pods}", unit, aim, work, before, controllers, diverse)
        for words, unit, aim, work, before, controllers in rows
    ]


WORKLOADS = (
    *_workloads(diverse=False),
    *_workloads(diverse=True),
    Workload(
        "memory with 5,000 nodes and 50,000 pods, diverse pods",
        "MiB",
        3,
        Step("placed", 50_000, ("-nodes", "5000")),
        (Step("nodes", 5_000),),
        diverse=True,
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
        for start, measured in ((kubernetes, real), (weir, own)):
            if sys.stderr.isatty():
                print(
                    f"{workload.figure}: round {number + 1} of {rounds}, {start.__name__} …", file=sys.stderr
                )
            measured.append(_once(start, workload))
    return figures_of(workload, real, own)


def _once(start: Start, workload: Workload) -> Measured:
    with start(workload.controllers) as system:
        try:
            return measure(system, workload.before, workload.work, workload.unit, workload.diverse)
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
    costs = [_medians(side, _cost) for side in (own, real)]
    spent, theirs = (sum(cost.values()) for cost in costs)
    sizes = [_medians(side, lambda one: one.memory) for side in (own, real)]
    ours, held = (sum(size.values()) for size in sizes)
    figures = [
        Figure(workload.figure, value, workload.unit, baseline, statistics.median(ratios), aim),
        Figure(
            "  processor time for each, all processes", spent, "µs", theirs, theirs / spent if spent else None
        ),
    ]
    for side, cost in zip(_SIDES, costs, strict=True):
        figures += [Figure(f"    {side}: {name}", paid, "µs") for name, paid in cost.items()]
    figures.append(Figure("  memory, all processes", ours, "MiB", held, held / ours if ours else None))
    for side, size in zip(_SIDES, sizes, strict=True):
        figures += [Figure(f"    {side}: {name}", mebibytes, "MiB") for name, mebibytes in size.items()]
    for side, rounds in zip(_SIDES, (own, real), strict=True):
        share = statistics.median(one.generator for one in rounds) * 100
        figures.append(Figure(f"  the generator's part of the machine, {side}", share, "%"))
    return figures


def _cost(one: Measured) -> Mapping[str, float]:
    """Return the microseconds each process took for one pod."""
    return {name: seconds / max(one.count, 1) * 1e6 for name, seconds in one.cpu.items()}


def _medians(side: Sequence[Measured], of: Callable[[Measured], Mapping[str, float]]) -> dict[str, float]:
    """Return a value of each process, the median of the rounds."""
    return {name: statistics.median(of(one)[name] for one in side) for name in of(side[0])}
