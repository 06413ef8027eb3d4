"""Growth of the cost of one item with the cluster: curves from small to very large, and pictures of them.

`python -m bench growth [CURVE…] [FILE.json…] [--quick] [--json] [--write]`: every point is measured in a process of its
own, in processor time, and held against n log n; `--write` draws docs/pictures/growth-*.svg and writes
docs/design/growth.md (all curves: about a quarter of an hour on a quiet machine), `--quick` leaves the largest sizes
out. A FILE.json that an earlier `--json` wrote stands for the curves it holds.
Not here: what is measured (bench._growth_curves), exponents (bench._growth_fit), the pictures (bench._growth_picture).
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import Figure
from bench._growth_fit import Point, allowed, exponent, fitted, knee, sizes
from bench._growth_picture import draw, said
from bench._load import cpu_seconds

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design" / "growth.md"
PICTURES = ROOT / "docs" / "pictures"
INTRODUCTION = """\
What one more pod, object or device costs in clusters from small to very large. Both axes of a picture are logarithmic:
a level line means that n items cost in step with n, and the dashed lines are n and n log n. An exponent is that of the
cost of n items. Every point was measured in a process of its own, in processor time (which other programs of the
machine disturb less than wall time, though they share its caches), on {machine}.
`python -m bench growth --write` measures and draws it all again."""
POINT_SECONDS = 600  #: a point that takes more processor time ends its series
WEEK_NODES, WEEK_HOURS, WEEK_SECONDS = 5_000, 7 * 24, 600
QUICK = 10  #: how many times smaller the largest size of a quick run is


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a picture: which function of bench._growth_curves is asked, and for which sizes."""

    name: str
    function: str
    first: int
    last: int
    memory: str = ""  #: what one of the things is that the memory is counted for


@dataclass(frozen=True, slots=True)
class Curve:
    """One picture."""

    name: str
    title: str
    n: str
    series: tuple[Series, ...]
    says: str  #: what is measured, in one sentence
    why: str = ""  #: what explains the shape


CURVES = (
    Curve(
        "placement",
        "Placing one pod, by the number of nodes",
        "nodes",
        (
            Series("default plugins", "placement", 100, 100_000),
            Series("topology spread", "spread", 100, 100_000),
        ),
        "The scheduler's engine places pods of 50 classes that it knows.",
        "Spread moves whole domains with every pod; above 4,096 nodes the constraints are judged once for each domain.",
    ),
    Curve(
        "pods",
        "Placing one pod, by the number of pods placed",
        "pods, 30 on each node",
        (Series("default plugins", "pods", 1_000, 1_000_000, "pod in the scheduler"),),
        "The engine fills an empty cluster with so many pods.",
    ),
    Curve(
        "claims",
        "Placing one pod with a claim, by the number of nodes",
        "nodes with 4 devices each",
        (Series("devices promised", "claimed", 100, 100_000),),
        "The engine finds devices for claims of one shape and promises them.",
        "The nodes with the best scores are searched first, so a placement takes one or two searches (decision 95).",
    ),
    Curve(
        "tracker",
        "Tracking device taints, by the number of slices",
        "slices of 8 devices",
        (
            Series("a device published", "published", 100, 31_600, "device in the tracker"),
            Series("a rule for one pool", "rule_of_one_pool", 100, 31_600),
        ),
        "A tracker with 100 rules takes devices in, and a rule about one pool comes and goes.",
    ),
    Curve(
        "taint-flip",
        "Evicting one pod by a taint on every node",
        "nodes tainted, 5 pods on each",
        (Series("pod evicted and gone", "taint_flip", 100, 3_160),),
        "All nodes of a living cluster (API server, controllers, kubelets; virtual time) get a NoExecute taint.",
    ),
    Curve(
        "time",
        "Letting time pass, by the number of nodes",
        "nodes of a living cluster",
        (
            Series("a node for an hour", "hours", 100, 10_000),
            Series("pod evicted, placed again", "replaced", 100, 10_000),
        ),
        "A whole cluster under virtual time: an hour without changes but a node that fails, and taints that change.",
        "Nodes that are well cost nothing: their reports are known without being written (decision 77). An eviction is "
        "about 20 requests of all components together, however large the cluster.",
    ),
    Curve(
        "what-if",
        "`weir what-if taint`, by the number of nodes in the dump",
        "nodes, 30 pods on each",
        (Series("a pod of the dump", "whatif", 100, 10_000, "pod of a dump in `weir what-if`"),),
        "From the raw dump to the answer about a taint on one node.",
    ),
    Curve(
        "leaving",
        "`weir what-if taint`, by the number of pods that leave",
        "pods that leave",
        (Series("a pod that leaves", "leaving", 100, 100_000),),
        "A pool with two fifths of the nodes is tainted, 30 pods on each; reading the dump and starting included.",
    ),
    Curve(
        "list",
        "Reading one object of a list by pages of 500",
        "objects in the list",
        (
            Series("nothing changed", "pages", 1_000, 1_000_000),
            Series("changed meanwhile", "changed_pages", 1_000, 1_000_000),
        ),
        "Pages from the store, of a list as it is and as it was before 100 changes.",
        "A page takes the same steps at every size; a short list stays in the processor's cache, a long one does not.",
    ),
    Curve(
        "watch",
        "One change replayed to a watch that resumes",
        "changes the store remembers",
        (
            Series("all missed", "resume", 1_000, 1_000_000),
            Series("100 missed", "late_resume", 1_000, 1_000_000),
        ),
        "A client that was away watches again from the revision it knows.",
    ),
    Curve(
        "start-up",
        "Starting from a store, by the number of objects",
        "objects of 1 kB in the store",
        (Series("an object read", "startup", 1_000, 1_000_000, "object of 1 kB in the store"),),
        "A restarted API server reads its SQLite file and checks every row.",
    ),
)


@dataclass(frozen=True, slots=True)
class Grown:
    """What was measured of one series."""

    series: Series
    points: tuple[Point, ...]  #: microseconds an item
    memory: tuple[Point, ...]  #: bytes a thing


def measured(series: Series, *, quick: bool) -> Grown:
    """Measure every size of a series."""
    points, memory = [], []
    for size in sizes(series.first, series.last // QUICK if quick else series.last):
        print(f"  {series.name}: {size:,} …", file=sys.stderr, flush=True)
        ask = f"import bench._growth_curves as curves; curves.tell(curves.{series.function}({size}))"
        command = [sys.executable, "-c", ask]
        answer = _answer(command)
        if answer is None:
            print(f"  {series.name}: {size:,} took longer than {POINT_SECONDS} s; left out", file=sys.stderr)
            break
        found = json.loads(answer.splitlines()[-1])
        points.append(Point(size, 1e6 * found["seconds"] / found["items"]))
        if series.memory and found["holds"]:
            memory.append(Point(size, max(found["held"], 1.0) / found["holds"]))
    return Grown(series, tuple(points), tuple(memory))


def _answer(command: Sequence[str]) -> str | None:
    """Return what a command printed; None if it took too much processor time: wall time says how busy the machine is.

    The system could end it by itself (RLIMIT_CPU), but would then count its time in ticks of some milliseconds.
    """
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        while True:
            try:
                answer, _ = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                if cpu_seconds(process.pid) > POINT_SECONDS:
                    process.kill()
                    return None
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return answer


def run(curves: Sequence[Curve] = CURVES, *, quick: bool = True) -> list[Figure]:
    """Measure the first sizes of every curve: how steep is it?"""
    return figures({curve: grown(curve, quick=quick) for curve in curves})


def grown(curve: Curve, *, quick: bool) -> list[Grown]:
    print(f"{curve.name}: {curve.title}", file=sys.stderr, flush=True)
    found = [measured(series, quick=quick) for series in curve.series]
    return [one for one in found if one.points]


def figures(found: Mapping[Curve, Sequence[Grown]]) -> list[Figure]:
    """Return the figures of every series: its cost at either end, and its exponent."""
    made = []
    for curve, each in found.items():
        for one in each:
            first, last = one.points[0], one.points[-1]
            name = f"{curve.name}, {one.series.name}"
            made.append(Figure(f"{name}: {first.n:,}", first.cost, "µs"))
            made.append(Figure(f"{name}: {last.n:,}", last.cost, "µs", first.cost, first.cost / last.cost))
            made.append(Figure(f"{name}: exponent", fitted(one.points), "", target=verdict(one.points)))
    return made


def verdict(points: Sequence[Point]) -> str:
    """Return in a few words how a curve grows.

    >>> verdict([Point(100, 2.0), Point(1000, 2.1)])
    'no worse than n log n'
    """
    at = knee(points)
    if at is not None:
        return f"worse than n log n from {at:,} on"
    if len(points) > 1 and fitted(points) > allowed(points[0], points[-1]):
        return "steeper than n log n at small sizes, not at large ones"
    return "no worse than n log n"


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def page(found: Mapping[Curve, Sequence[Grown]], machine: str) -> str:
    """Return docs/design/growth.md."""
    lines = ["# How costs grow", "", INTRODUCTION.format(machine=machine), ""]
    for curve, each in found.items():
        lines += [f"## {curve.title}", "", f"![{curve.title}](../pictures/growth-{curve.name}.svg)", ""]
        lines += [" ".join((curve.says, *map(_sentence, each), curve.why)).rstrip(), ""]
        if curve.name == "time":
            lines += [_week_sentence(*each), ""]
    remembered = [one for each in found.values() for one in each if one.memory]
    if remembered:
        lines += ["## Memory of one thing", "", "![Memory of one thing](../pictures/growth-memory.svg)", ""]
        lines += [" ".join(map(_memory_sentence, remembered)), ""]
    lines += [
        "## Every point",
        "",
        "| curve | n | cost of one | exponent from the point before |",
        "|---|---|---|---|",
    ]
    for curve, each in found.items():
        for one in each:
            lines += _rows(f"{curve.name}, {one.series.name}", one.points)
    return "\n".join((*lines, ""))


def _sentence(one: Grown) -> str:
    first, last = one.points[0], one.points[-1]
    costs = f"{said(first.cost, 'µs')} at {first.n:,} and {said(last.cost, 'µs')} at {last.n:,}"
    name = one.series.name
    largest = sizes(one.series.first, one.series.last)[-1]
    short = f" (not measured here up to {largest:,})" if last.n < largest else ""
    return f"{name[0].upper()}{name[1:]}: {costs}{short}, exponent {fitted(one.points):.2f}; {verdict(one.points)}."


def _week_sentence(hours: Grown, evictions: Grown) -> str:
    """Say what a week of 5,000 nodes comes to (`python -m bench week`), once the cluster is there."""
    quiet = WEEK_HOURS * WEEK_NODES * hours.points[-1].cost
    each = evictions.points[-1].cost
    held = (WEEK_SECONDS * 1e6 - quiet) / each
    return (
        f"At these costs a week of {WEEK_NODES:,} nodes takes {said(quiet, 'µs')} once it is set up, and 1,000 "
        f"evictions {said(1_000 * each, 'µs')} more: {WEEK_SECONDS // 60} minutes hold a week with {held:,.0f} of them."
    )


def _memory_sentence(one: Grown) -> str:
    last = one.memory[-1]
    article = "An" if one.series.memory[0] in "aeiou" else "A"
    return f"{article} {one.series.memory} takes {said(last.cost, 'B')} where there are {last.n:,}."


def _rows(name: str, points: Sequence[Point]) -> Iterable[str]:
    before: Point | None = None
    for point in points:
        step = f"{exponent(before, point):.2f}" if before is not None else ""
        yield f"| {name} | {point.n:,} | {said(point.cost, 'µs')} | {step} |"
        before = point


def pictures(found: Mapping[Curve, Sequence[Grown]], machine: str) -> dict[str, str]:
    """Return every picture by the name of its file."""
    footer = f"processor time, {machine}"
    drawn = {
        f"growth-{curve.name}.svg": draw(
            curve.title.replace("`", ""), curve.n, "µs", {one.series.name: one.points for one in each}, footer
        )
        for curve, each in found.items()
    }
    memory = {
        one.series.memory.replace("`", ""): one.memory
        for each in found.values()
        for one in each
        if one.memory
    }
    if memory:
        drawn["growth-memory.svg"] = draw(
            "Memory of one thing",
            "n of the curve it was measured with",
            "B",
            memory,
            f"resident memory, {machine}",
        )
    return drawn


def _machine() -> str:
    day = datetime.now(UTC).strftime("%-d %B %Y")
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {day}"


def main(arguments: Sequence[str]) -> int:
    options = {argument for argument in arguments if argument.startswith("-")}
    files = [argument for argument in arguments if argument.endswith(".json")]
    names = [argument for argument in arguments if argument not in options and argument not in files]
    known = {curve.name: curve for curve in CURVES}
    if unknown := sorted(options - {"--quick", "--json", "--write"}):
        print(f"bench growth: unknown option {unknown[0]}", file=sys.stderr)
        return 2
    if wrong := [name for name in names if name not in known]:
        print(f"bench growth: unknown curve {wrong[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    try:
        found = {curve: each for file in files for curve, each in _read(Path(file)).items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"bench growth: {' '.join(files)}: not what --json writes: {error}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in names] or ([] if files else list(CURVES))
    if "--write" in options and (len({*chosen, *found}) < len(CURVES) or "--quick" in options):
        print("bench growth: --write needs every curve in full: name none, and not --quick", file=sys.stderr)
        return 2
    found |= {curve: grown(curve, quick="--quick" in options) for curve in chosen}
    found = {curve: found[curve] for curve in CURVES if found.get(curve)}
    if "--json" in options:
        print(
            json.dumps(
                {curve.name: {one.series.name: _json(one) for one in each} for curve, each in found.items()}
            )
        )
    else:
        for curve, each in found.items():
            print(curve.title)
            for one in each:
                print(f"  {_sentence(one)}")
                for row in _rows(one.series.name, one.points):
                    print("   ", re.sub(r" \|", "", row).removeprefix("| "))
    if "--write" in options:
        machine = _machine()
        PAGE.write_text(page(found, machine))
        for name, picture in pictures(found, machine).items():
            (PICTURES / name).write_text(picture)
    return 0


def _read(file: Path) -> dict[Curve, list[Grown]]:
    """Return curves that were measured before: what `--json` wrote."""
    known = {curve.name: curve for curve in CURVES}
    found = {}
    for name, each in json.loads(file.read_text()).items():
        curve = known[name]
        found[curve] = [
            Grown(series, _points(each[series.name]["microseconds"]), _points(each[series.name]["bytes"]))
            for series in curve.series
        ]
    return found


def _points(costs: Mapping[str, float]) -> tuple[Point, ...]:
    return tuple(Point(int(n), float(cost)) for n, cost in costs.items())


def _json(one: Grown) -> dict[str, object]:
    slope = fitted(one.points)
    return {
        "microseconds": {point.n: point.cost for point in one.points},
        "bytes": {point.n: point.cost for point in one.memory},
        "exponent": None if math.isnan(slope) else slope,
        "knee": knee(one.points),
    }
