"""The history of one pod and of the pods made in its place, step by step, a line each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from weir.whatif.eviction_loops import WorkloadOf
from weir.whatif.history import EVICTIONS, History, PodLife


def story(history: History, wanted: str, workload_of: WorkloadOf) -> list[str]:
    """Return what happened to the pods that *wanted* names, by pod or workload, in the order it happened."""
    chosen: dict[str, PodLife] = {}
    for life in history.lives.values():
        if life.made < 0.0 and wanted in (life.key, life.name, workload_of(life)):
            each: PodLife | None = life
            while each is not None:
                chosen[each.uid] = each
                each = each.instead
    lines = [line for life in chosen.values() for line in _steps(life)]
    return [
        f"{'in the end' if math.isinf(at) else f'{at:.1f} s':>10}  {text}"
        for at, text in sorted(lines, key=lambda line: line[0])
    ]


def _steps(life: PodLife) -> Iterator[tuple[float, str]]:
    """Yield what happened to one pod after the change, and when."""
    if life.made >= 0.0:
        yield life.made, f"{life.key} is created"
    if life.bound is not None and life.bound >= 0.0:
        yield life.bound, f"{life.key} is scheduled to {life.node}"
    if life.running is not None and life.running >= 0.0:
        yield life.running, f"{life.key} runs on {life.node}"
    if life.left is not None and life.left >= 0.0 and life.cause is not None:
        verb = "evicted" if life.cause.why in EVICTIONS else "removed"
        where = f"from {life.node}" if life.node else "while it is pending"
        yield life.left, f"{life.key} is {verb} {where}: {life.cause.say()}"
    if life.gone is not None and life.gone >= 0.0:
        yield life.gone, f"{life.key} is gone"
    if life.left is None and life.running is None and life.waits:
        yield math.inf, f"{life.key} stays pending: {life.waits}"
