"""Records what Prometheus' engine answers to every form of query that deploy/ uses, about random series.

`python -m tests.promql_oracle` needs Go, and minutes to build `main.go`. The engine comes as a module of ours, since
its repository excludes versions and so cannot be installed by itself.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ANSWERS = HERE.parent / "vectors" / "promql.json"
#: `c` is a counter, `d` another with the same labels, `g` a gauge, `h` a histogram.
QUERIES = (
    "g", 'g{kind="a"}', 'g{kind!="a"}', 'g{kind=~"a|c"}', 'g{kind!~"a.*"}', 'g{kind=""}', "g > 2", "sum(g)",
    "sum by (kind) (g)", "max by (kind) (g) > 1", "rate(c[5m])", "increase(c[15m])", "increase(c[1m])", "c / d",
    "d / c",
    'sum by (kind) (increase(c{node=~"x|y"}[10m])) > 3', "sum by (kind) (rate(c[5m])) / sum by (kind) (rate(d[5m]))",
    "sum by (kind) (rate(c[10m])) / sum by (kind) (rate(d[10m])) > 0.5 and sum by (kind) (rate(d[10m])) > 0.02",
    "histogram_quantile(0.99, sum by (le) (rate(h_bucket[10m])))", "histogram_quantile(0.5, rate(h_bucket[5m]))",
    "histogram_quantile(0.9, sum by (le, kind) (rate(h_bucket[10m]))) > 1", "sum(rate(c[5m])) > 100", "none",
)  # fmt: skip
STEP, PAGES, BOUNDS = 30, 24, (0.1, 0.5, 1.0, 5.0)


def case(seed: int) -> dict[str, Any]:
    """Return series that are scraped for twelve minutes: some begin late, miss scrapes, start anew or end.

    A value of None is the mark of staleness that Prometheus writes when a page no longer has the series.
    """
    chance = random.Random(seed)
    series: list[dict[str, Any]] = []

    def add(labels: dict[str, str], samples: list[list[float]]) -> None:
        known = {moment // STEP for moment, _ in samples}
        stale = [[at * STEP, None] for at in range(1, PAGES) if at - 1 in known and at not in known]
        series.append({"labels": labels, "samples": sorted([*samples, *stale])})

    for kind in "abc":
        for node in "xy":
            first, last = chance.choice((0, 0, 0, 8)), chance.choice((PAGES, PAGES, PAGES, 15))
            missed = chance.choice((0, 0, 0.3))
            moments = [
                at for at in range(first, last) if chance.random() >= missed or at in (first, last - 1)
            ]
            labels = {"kind": kind, "node": node}
            for name in "cd":
                value, rise, found = chance.choice((0, 50)), chance.choice((0, 1, 7)), []
                for at in moments:
                    value = 0 if chance.random() < 0.05 else value + chance.randint(0, rise)
                    found.append([at * STEP, value])
                add({"__name__": name, **labels}, found)
            add({"__name__": "g", **labels}, [[at * STEP, chance.randint(0, 5)] for at in moments])
            counts, buckets = [0] * (len(BOUNDS) + 1), [[] for _ in range(len(BOUNDS) + 1)]
            for at in moments:
                for place in chance.choices(range(len(counts)), k=chance.randint(0, 4)):
                    for above in range(place, len(counts)):
                        counts[above] += 1
                for place, count in enumerate(counts):
                    buckets[place].append([at * STEP, count])
            for bound, samples in zip([*map(str, BOUNDS), "+Inf"], buckets, strict=True):
                add({"__name__": "h_bucket", "le": bound, **labels}, samples)
    return {"series": series, "at": (PAGES - 1) * STEP, "queries": QUERIES}


def main() -> None:
    cases = [case(seed) for seed in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "oracle"
        subprocess.run(["go", "build", "-o", program, "."], cwd=HERE, check=True)
        lines = "".join(json.dumps(each) + "\n" for each in cases)
        done = subprocess.run([program], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    ANSWERS.write_text(
        json.dumps([dict(zip(QUERIES, each, strict=True)) for each in answers], indent=0) + "\n"
    )


if __name__ == "__main__":
    main()
