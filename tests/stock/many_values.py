"""A key with a value for each node, on a real Kubernetes: writes, bytes in a pod, memory and latency."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.stock.real import NODES, PODS, Plane, installed, plane
from tests.stock.scale import every, memory, patiently
from weir.lowering.names import is_rule_label

KEYS, EFFECTS = ("sla", "temperature"), ("NoSchedule", "NoExecute")
#: Kept free of values that the nodes begin with.
NEW_VALUES = 1_000_000
WRITES = 20
FILL_SECONDS = 7_200.0


@dataclass
class Figures:
    """What a cluster of one size came to; times in milliseconds."""

    nodes: int
    pods: int
    values: int = 0
    filling_seconds: float = 0.0
    largest_pod: int = 0
    labelled: int = 0
    tolerated: list[float] = field(default_factory=list)
    evicting: list[float] = field(default_factory=list)
    created: list[float] = field(default_factory=list)
    memory: tuple[float, float] = (0.0, 0.0)
    wrong: list[str] = field(default_factory=list)  #: what should not have happened, in words

    def line(self) -> str:
        def cut(times: list[float]) -> str:
            return f"p50 {statistics.median(times):.0f} ms, longest {max(times):.0f} ms"

        return (
            f"{self.nodes} nodes, {self.pods} pods, {self.values} taints: filled in {self.filling_seconds:.0f} s, "
            f"largest pod {self.largest_pod} bytes, {self.labelled} nodes labelled, "
            f"node write tolerated {cut(self.tolerated)}, evicting {cut(self.evicting)}, "
            f"create to bound {cut(self.created)}, operator {self.memory[0]:.0f} MiB "
            f"(highest {self.memory[1]:.0f}); wrong: {'; '.join(self.wrong) or 'nothing'}"
        )


class ManyValues:
    """Nodes with values that no two of them share, and pods that tolerate all."""

    def __init__(self, made: Plane, figures: Figures) -> None:
        self._plane, self.figures = made, figures
        self._new = itertools.count(NEW_VALUES)
        self._names = itertools.count()

    async def run(self) -> None:
        figures, began = self.figures, time.monotonic()
        await every(
            lambda number=number: patiently(lambda: self._plane.node(f"n{number}", *self._taints(number)))
            for number in range(figures.nodes)
        )
        figures.values = figures.nodes * len(KEYS) * len(EFFECTS)
        await every(lambda: self._pod() for _ in range(figures.pods))
        await self._plane.until(
            lambda: len(self._plane.bound) >= figures.pods, "pods are bound", FILL_SECONDS
        )
        figures.filling_seconds = time.monotonic() - began
        figures.created = [await self._bound_after() for _ in range(WRITES)]
        await self._look()
        await self._flip()
        figures.memory = memory(self._plane.operators[0])

    def _taints(self, number: int) -> list[tuple[str, str, str]]:
        first = number * len(KEYS) * len(EFFECTS)
        return [
            (key, str(first + place), effect)
            for place, (key, effect) in enumerate(itertools.product(KEYS, EFFECTS), 1)
        ]

    async def _pod(self) -> str:
        name = f"p{next(self._names)}"
        tolerations = [{"key": key, "operator": "Gt", "value": "0"} for key in KEYS]
        await patiently(lambda: self._plane.pod(name, *tolerations))
        return name

    async def _bound_after(self) -> float:
        began = time.monotonic()
        name = await self._pod()
        await self._plane.until(lambda: name in self._plane.bound, f"{name} is bound")
        return (self._plane.bound[name] - began) * 1000

    async def _look(self) -> None:
        nodes = (await self._plane.client.list(NODES)).documents()
        self.figures.labelled = sum(any(map(is_rule_label, node["metadata"]["labels"])) for node in nodes)
        pods = await self._pods()
        self.figures.largest_pod = max(len(json.dumps(pod)) for pod in pods)

    async def _pods(self) -> list[dict[str, Any]]:
        return [pod async for page in self._plane.client.pages(PODS) for pod in page.documents()]

    async def _flip(self) -> None:
        """Give nodes with pods new values: tolerated, kept away from, and evicting."""
        figures = self.figures
        places: dict[str, list[str]] = {}
        for pod in await self._pods():
            if pod["metadata"]["namespace"] == "default" and pod["spec"].get("nodeName"):
                places.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["name"])
        for node in list(places)[:WRITES]:
            figures.tolerated.append(await self._write(node, ("sla", str(next(self._new)), "NoExecute")))
            await self._write(node, ("sla", "0", "NoSchedule"))
        later = [await self._pod() for _ in range(WRITES)]
        await self._plane.until(
            lambda: all(name in self._plane.bound for name in later), "new pods are bound"
        )
        for node, names in list(places.items())[:WRITES]:
            figures.wrong += [f"{name} left {node}" for name in names if name in self._plane.gone]
        for pod in await self._pods():
            created = pod["metadata"]["name"] in later
            if created and pod["spec"].get("nodeName") in list(places)[:WRITES]:
                figures.wrong.append(f"{pod['metadata']['name']} is on {pod['spec']['nodeName']}")
        for node in list(places)[:WRITES]:
            figures.evicting.append(await self._write(node, ("sla", "0", "NoExecute")))
        due = {name: node for node, names in list(places.items())[:WRITES] for name in names}
        deadline = time.monotonic() + 10
        while due.keys() - self._plane.gone.keys() and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        figures.wrong += [f"{name} stayed on {due[name]}" for name in due.keys() - self._plane.gone.keys()]

    async def _write(self, node: str, taint: tuple[str, str, str]) -> float:
        return await self._plane.taint(node, taint) * 1000


async def measure(folder: Path, nodes: int, pods: int) -> Figures:
    """Return what a cluster with a value for each node came to."""
    async with plane(folder) as made, installed(made):
        measured = ManyValues(made, Figures(nodes, pods))
        await measured.run()
        return measured.figures
