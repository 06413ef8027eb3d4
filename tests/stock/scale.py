"""The operator's cost as a cluster grows: real programs, bare nodes, half of the pods extended, a value a node.

Both sides in one run: the same nodes and pods without the operator, where the extended half tolerates its taints by
`Exists`, and with it. Then new values come: to one node after the other, and to many at once, which share confirms.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import statistics
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from tests.stock.real import Plane, Program, installed, plane
from weir import errors
from weir.client.api import Unreachable

AT_ONCE, SAMPLE, ONE_BY_ONE, TOGETHER = 24, 40, 20, 40
#: An extended pod tolerates so many values, spread over all nodes.
TOLERATED = 50
#: One in so many pods more waits for a node that never comes, while so many nodes get new values.
WAITING, SOME = 10, 5


@dataclass
class Figures:
    """What one side of one size came to; times in milliseconds, memory in MiB."""

    nodes: int
    pods: int
    operator: bool
    filling_seconds: float = 0.0
    plain: tuple[float, float] = (0.0, 0.0)  #: create → bound, median and p90
    extended: tuple[float, float] = (0.0, 0.0)
    write: tuple[float, float] = (0.0, 0.0)  #: of a node with a new value, one after the other
    together_seconds: float = 0.0  #: so many nodes at once, the last answer
    confirms: int = 0  #: for all of these together
    pod_cpu: float = 0.0  #: of the operator, for each extended pod that was created and released
    write_cpu: float = 0.0  #: and for each node write with a new value
    waiting: int = 0  #: extended pods without a node
    ahead: tuple[float, float] = (0.0, 0.0)  #: a node write that evicts nobody meanwhile
    behind: tuple[float, float] = (0.0, 0.0)  #: and one that evicts
    memory: float = 0.0
    highest: float = 0.0

    def line(self) -> str:
        side = "with" if self.operator else "without"
        text = (
            f"{self.nodes:5} nodes {self.pods:6} pods {side:7} operator  filled in {self.filling_seconds:5.0f} s  "
            f"create to bound plain {self.plain[0]:4.0f} ms (p90 {self.plain[1]:4.0f})  "
            f"extended {self.extended[0]:4.0f} ms (p90 {self.extended[1]:4.0f})  "
            f"node write {self.write[0]:4.0f} ms (p90 {self.write[1]:4.0f})  "
            f"{TOGETHER} writes at once {self.together_seconds * 1000:5.0f} ms"
        )
        if self.operator:
            text += (
                f" with {self.confirms} confirms  operator {self.memory:.0f} MiB (highest {self.highest:.0f}), "
                f"node write while {self.waiting} wait: NoSchedule {self.ahead[0]:.0f} ms (p90 {self.ahead[1]:.0f}), "
                f"NoExecute {self.behind[0]:.0f} ms (p90 {self.behind[1]:.0f}), "
                f"CPU {self.pod_cpu:.1f} ms a pod, {self.write_cpu:.1f} ms a write"
            )
        return text


class Growing:
    """One side of one size."""

    def __init__(self, made: Plane, figures: Figures) -> None:
        self._plane, self.figures = made, figures
        self._names = itertools.count()
        self._classes = max(1, figures.nodes // TOLERATED)
        self._turns = itertools.count(1)

    async def run(self) -> None:
        figures = self.figures
        began, cpu = time.monotonic(), self._cpu()
        await every(
            lambda number=number: patiently(
                lambda: self._plane.node(f"n{number}", ("sla", str(number), "NoSchedule"))
            )
            for number in range(figures.nodes)
        )
        names = [f"p{next(self._names)}" for _ in range(figures.pods)]
        await every(
            lambda name=name, number=number: self._pod(name, extended=number % 2 == 1)
            for number, name in enumerate(names)
        )
        await self._plane.until(lambda: len(self._plane.bound) >= len(names), "pods are bound", 3600.0)
        figures.filling_seconds = time.monotonic() - began
        figures.pod_cpu = (self._cpu() - cpu) / (figures.pods / 2)
        figures.plain = _cuts([await self._bound_after(extended=False) for _ in range(SAMPLE)])
        figures.extended = _cuts([await self._bound_after(extended=True) for _ in range(SAMPLE)])
        nodes = [
            f"n{figures.nodes - 1 - number}" for number in range(min(figures.nodes, ONE_BY_ONE + TOGETHER))
        ]
        before_writes = self._cpu()
        figures.write = _cuts([await self._taint(node) for node in nodes[:ONE_BY_ONE]])
        before = self._confirms()
        began = time.monotonic()
        await asyncio.gather(*(self._taint(node) for node in nodes[ONE_BY_ONE:]))
        figures.together_seconds = time.monotonic() - began
        figures.confirms = self._confirms() - before
        figures.write_cpu = (self._cpu() - before_writes) / len(nodes)
        if figures.operator:
            await self._write_while_pods_wait(nodes)
        if figures.operator:
            figures.memory, figures.highest = memory(self._plane.operators[0])

    async def _write_while_pods_wait(self, nodes: list[str]) -> None:
        """Let many extended pods wait for a node that never comes, and give nodes values that some of them tolerate."""
        figures = self.figures
        names = [f"waits-{number}" for number in range(figures.pods // WAITING)]
        await every(lambda name=name: self._pod(name, extended=True, node="nowhere") for name in names)
        await self._plane.until(
            lambda: all(name in self._plane.released for name in names), "pods wait", 900.0
        )
        figures.waiting = len(names)
        figures.ahead = _cuts([await self._taint(node, "NoSchedule") for node in nodes[:SOME]])
        figures.behind = _cuts([await self._taint(node) for node in nodes[:SOME]])

    async def _pod(self, name: str, *, extended: bool, node: str = "") -> None:
        if not extended or not self.figures.operator:
            entry = {"key": "sla", "operator": "Exists"}
        else:
            which = crc32(name.encode()) % self._classes
            expression = f"taint.key == 'sla' && int(taint.value) % {self._classes} == {which}"
            entry = {"operator": "CEL", "value": expression}
        await patiently(lambda: self._plane.pod(name, entry, node=node))

    async def _bound_after(self, *, extended: bool) -> float:
        name = f"sample-{next(self._names)}"
        began = time.monotonic()
        await self._pod(name, extended=extended)
        await self._plane.until(lambda: name in self._plane.bound, f"{name} is bound")
        return (self._plane.bound[name] - began) * 1000

    async def _taint(self, node: str, effect: str = "NoExecute") -> float:
        """Give a node a value that nobody has seen, against running pods too unless *effect* says otherwise."""
        value = int(node[1:]) + 1_000_000 * self._classes * next(self._turns)  # tolerated by the same pods
        return await self._plane.taint(node, ("sla", str(value), effect)) * 1000

    def _cpu(self) -> float:
        """Return the milliseconds of CPU that the operator has used."""
        if not self.figures.operator:
            return 0.0
        fields = Path(f"/proc/{self._plane.operators[0].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1000

    def _confirms(self) -> int:
        if not self.figures.operator:
            return 0
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self._plane.metrics_ports[0]}/metrics", timeout=30
        ) as page:
            found = re.search(r"^weir_operator_confirms_total (\d+)", page.read().decode(), re.M)
        return int(found.group(1)) if found else 0


def _cuts(times: list[float]) -> tuple[float, float]:
    return statistics.median(times), sorted(times)[int(len(times) * 0.9)]


def memory(program: Program) -> tuple[float, float]:
    text = Path(f"/proc/{program.pid}/status").read_text()
    now, most = (re.search(rf"{name}:\s+(\d+)", text) for name in ("VmRSS", "VmHWM"))
    assert now is not None and most is not None
    return int(now.group(1)) / 1024, int(most.group(1)) / 1024


async def every(acts: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Do everything, a few at once."""
    left = iter(acts)

    async def some() -> None:
        for act in left:
            await act()

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def patiently(act: Callable[[], Awaitable[None]]) -> None:
    for _ in range(200):
        try:
            return await act()
        except errors.AlreadyExists:
            return None
        except (errors.TooManyRequests, errors.InternalError, Unreachable):
            await asyncio.sleep(0.2)
    return await act()


async def measure(folder: Path, nodes: int, pods: int, *, operator: bool) -> Figures:
    """Return the figures of one side."""
    figures = Figures(nodes, pods, operator)
    async with plane(folder) as made:
        growing = Growing(made, figures)
        if operator:
            async with installed(made):
                await growing.run()
        else:
            await growing.run()
    return figures
