"""What the operator adds to writes: node writes with a new value and pod creates, on two clusters by turns in one run.

Both clusters have the same nodes, each with a value of its own, and get the same pods: with the operator these tolerate
a few values each by an expression, without it the whole key. A step is done a block at a time, on one side and then on
the other, so that both meet the same load of the machine. Beside the times stands the processor time of each program,
which other work on the machine changes little.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from tests.stock.real import Plane, Program, installed, plane
from tests.stock.scale import every, patiently
from weir.objects.kinds import by_kind

EVENTS = by_kind("v1", "Event")
#: As many clients create pods at once.
CLIENTS, BLOCK = 8, 100
BLOCKS, WRITES, WRITES_OF_A_BLOCK = 20, 60, 5
#: An extended pod tolerates so many values, spread over all nodes.
TOLERATED = 50
PATIENCE_SECONDS = 1800.0


@dataclass
class Side:
    """One cluster and what was measured on it; times in milliseconds."""

    plane: Plane
    operator: bool
    creates: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    create_cpu: Counter[str] = field(default_factory=Counter)
    write_cpu: Counter[str] = field(default_factory=Counter)
    events: int = 0
    wrong: list[str] = field(default_factory=list)  #: what should not have happened, in words

    @property
    def name(self) -> str:
        return "with" if self.operator else "without"

    def lines(self) -> list[str]:
        return [
            f"{self.name:7} pod create {_cuts(self.creates)}, CPU of one {_shares(self.create_cpu, len(self.creates))}",
            f"{self.name:7} node write {_cuts(self.writes)}, CPU of one {_shares(self.write_cpu, len(self.writes))}",
        ]


def percentile(times: list[float], percent: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * percent / 100))]


def _cuts(times: list[float]) -> str:
    return f"p50 {statistics.median(times):.0f} ms, p99 {percentile(times, 99):.0f} ms, longest {max(times):.0f} ms"


def _shares(used: Counter[str], number: int) -> str:
    return ", ".join(f"{program} {milliseconds / number:.1f} ms" for program, milliseconds in used.items())


def processor_time(programs: list[Program]) -> Counter[str]:
    """Return the milliseconds that each program has used, by its name without a number."""
    found: Counter[str] = Counter()
    for program in programs:
        fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1000
        found[program.name.rstrip("-0123456789")] += used
    return found


class Latency:
    """The same work on two clusters by turns."""

    def __init__(self, sides: list[Side], nodes: int) -> None:
        self._sides, self._nodes = sides, nodes
        self._classes = max(1, nodes // TOLERATED)
        self._names, self._turns = itertools.count(), itertools.count(1)

    async def run(self) -> None:
        for side in self._sides:
            await every(
                lambda number=number, side=side: patiently(
                    lambda: side.plane.node(f"n{number}", ("sla", str(number), "NoSchedule"))
                )
                for number in range(self._nodes)
            )
        await self._by_turns(self._create, BLOCKS, "create_cpu")
        for side in self._sides:
            await side.plane.until(
                lambda side=side: len(side.plane.bound) >= len(side.creates),
                "pods are bound",
                PATIENCE_SECONDS,
            )
        await self._by_turns(self._write, WRITES // WRITES_OF_A_BLOCK, "write_cpu")
        for side in self._sides:
            side.wrong = sorted(side.plane.gone)
            side.events = sum([len(page.documents()) async for page in side.plane.client.pages(EVENTS)])

    async def _by_turns(self, block: Callable[[Side, int], Awaitable[None]], blocks: int, cpu: str) -> None:
        for number in range(blocks):
            for side in self._sides if number % 2 else reversed(self._sides):
                before = processor_time(side.plane.programs)
                await block(side, number)
                getattr(side, cpu).update(processor_time(side.plane.programs) - before)

    async def _create(self, side: Side, number: int) -> None:
        names = iter([f"p{number}-{each}" for each in range(BLOCK)])

        async def client() -> None:
            for name in names:
                began = time.monotonic()
                await side.plane.pod(name, self._toleration(side, name))
                side.creates.append((time.monotonic() - began) * 1000)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    def _toleration(self, side: Side, name: str) -> dict[str, str]:
        if not side.operator:
            return {"key": "sla", "operator": "Exists"}
        which = crc32(name.encode()) % self._classes
        expression = f"taint.key == 'sla' && int(taint.value) % {self._classes} == {which}"
        return {"operator": "CEL", "value": expression}

    async def _write(self, side: Side, number: int) -> None:
        """Give nodes a value that is new to the cluster and that the same pods tolerate."""
        for each in range(WRITES_OF_A_BLOCK):
            node = number * WRITES_OF_A_BLOCK + each
            value = node + 1_000_000 * self._classes * next(self._turns)
            seconds = await side.plane.taint(f"n{node}", ("sla", str(value), "NoExecute"))
            side.writes.append(seconds * 1000)


async def measure(folder: Path, nodes: int) -> list[Side]:
    """Return both sides of a cluster of so many nodes, the one with the operator first."""
    async with AsyncExitStack() as stack:
        sides = []
        for operator in (True, False):
            (folder / str(operator)).mkdir()
            made = await stack.enter_async_context(plane(folder / str(operator)))
            if operator:
                await stack.enter_async_context(installed(made))
            sides.append(Side(made, operator))
        await Latency(sides, nodes).run()
        return sides


def added(sides: list[Side]) -> tuple[float, float]:
    """Return what the operator adds: to node writes at p50, to pod creates at p99."""
    writes = [statistics.median(side.writes) for side in sides]
    creates = [percentile(side.creates, 99) for side in sides]
    return writes[0] - writes[1], creates[0] - creates[1]
