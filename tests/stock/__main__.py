"""The long runs that `make test-stock` makes.

`python -m tests.stock flips [for each situation] [situation …]`: on real Kubernetes programs.
`python -m tests.stock scale [nodes/pods[/with|/without] …]`: on real programs, without and with the operator.
`python -m tests.stock latency [nodes]`: on real programs, with and without the operator by turns.
`python -m tests.stock many-values [nodes/pods]`: on real programs, a value of its own for each node.
`python -m tests.stock compatibility [flips]`: on real programs; writes docs/reference/compatibility.md.
`python -m tests.stock histories [how many] [first seed]`: under virtual time, beside native operators.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.stock.histories import History

STEPS = 12


def flips(each: int = 500, *situations: str) -> int:
    """Return how many pods were evicted wrongly or not at all."""
    from tests.stock.flips import SITUATIONS, play

    bad = 0
    for situation in situations or SITUATIONS:
        with tempfile.TemporaryDirectory(prefix="weir-stock-") as folder:
            result = asyncio.run(play(Path(folder), situation, each))
        print(result.line(), flush=True)
        bad += len(result.wrong) + len(result.missed)
    return bad


def histories(count: int = 500, first: int = 0) -> int:
    """Return how many histories came out differently."""
    bad = 0
    for seed in range(first, first + count):
        history = History(seed, STEPS)
        if found := history.differences():
            bad += 1
            print(f"seed {seed}: {'; '.join(found)}", *history.told, sep="\n  ", flush=True)
    print(f"{count} histories of {STEPS} steps, {bad} different")
    return bad


def scale(*sizes: str) -> None:
    """Print how times and memory grow with the size of the cluster."""
    from tests.stock.scale import measure

    for size in sizes or ("100/1000", "300/6000", "1000/20000"):
        nodes, pods, *side = size.split("/")
        for operator in (side == ["with"],) if side else (False, True):
            with tempfile.TemporaryDirectory(prefix="weir-stock-") as folder:
                print(
                    asyncio.run(measure(Path(folder), int(nodes), int(pods), operator=operator)).line(),
                    flush=True,
                )


def many(size: str = "5000/20000") -> int:
    """Return how much went wrong in a cluster with a value for each node, and print its figures."""
    from tests.stock.many_values import measure

    nodes, pods = map(int, size.split("/"))
    with tempfile.TemporaryDirectory(prefix="weir-stock-") as folder:
        figures = asyncio.run(measure(Path(folder), nodes, pods))
    print(figures.line(), flush=True)
    return len(figures.wrong)


def latency(nodes: int = 1000) -> int:
    """Print what the operator adds to writes; return how many pods left a node that they tolerate."""
    from tests.stock.latency import added, measure

    with tempfile.TemporaryDirectory(prefix="weir-stock-") as folder:
        sides = asyncio.run(measure(Path(folder), nodes))
    print(*(line for side in sides for line in side.lines()), sep="\n")
    write, create = added(sides)
    print(
        f"{nodes} nodes: the operator adds {write:.0f} ms to a node write (p50) and {create:.0f} ms to a pod create "
        f"(p99); events {sides[0].events}, without {sides[1].events}; load {os.getloadavg()[0]:.0f}"
    )
    return sum(len(side.wrong) for side in sides)


def main(arguments: list[str]) -> int:
    what, *rest = arguments or ["flips"]
    if what == "histories":
        return 1 if histories(*map(int, rest)) else 0
    if what == "compatibility":
        from tests.stock.compatibility import measure, write

        write(measure(int(rest[0]) if rest else 200))
        return 0
    if what == "many-values":
        return 1 if many(*rest) else 0
    if what == "latency":
        return 1 if latency(*map(int, rest)) else 0
    if what == "scale":
        scale(*rest)
        return 0
    number, *situations = rest or ["500"]
    return 1 if flips(int(number), *situations) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
