"""Thresholds that make a difference, and the nodes each keeps.

Only node values matter: between two of them nothing changes. So each candidate is the tightest threshold that still
accepts one of the values, and results are found by bisection: a looser threshold never accepts fewer nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from weir.advise.node_taints import Bools
from weir.advise.question import Question, read_tolerations
from weir.objects.core import Toleration
from weir.taints.operators import find_comparison


@dataclass(frozen=True)
class Step:
    """One value of a threshold, and the nodes that take the workload with it."""

    value: str
    nodes: frozenset[str]


@dataclass(frozen=True)
class Thresholds:
    """What one ordered toleration of a workload keeps now, and what other values would."""

    index: int  #: which toleration, as they are written
    toleration: Toleration
    steps: tuple[str, ...]  #: the values that make a difference, tightest first
    now: Step
    tightest: Step | None  #: the tightest that keeps as many nodes as are wanted; None: no value does
    loosest: Step | None  #: the tightest of those that take the most nodes; None: no node has a value to take
    zones: tuple[tuple[str, str], ...]  #: each zone with the tightest value that keeps it, first lost first


def find_thresholds(question: Question, index: int, keep: int) -> Thresholds:
    """Return what the values of toleration *index* decide; *keep* is how many nodes are wanted."""
    toleration = read_tolerations(question.written)[index]
    steps = question.cluster.steps(toleration)
    now = Step(toleration.value, question.fitting())
    if not steps:
        return Thresholds(index, toleration, (), now, None, None, ())

    @cache
    def at(position: int) -> Bools:
        return question.fitting_with(index, steps[position])

    def first(holds: Callable[[Bools], bool]) -> int | None:
        position = bisect_left(range(len(steps)), True, key=lambda each: holds(at(each)))
        return position if position < len(steps) else None

    def step(position: int | None) -> Step | None:
        return None if position is None else Step(steps[position], question.node_names(at(position)))

    most = at(len(steps) - 1)
    kept = [
        (zone, tightest)
        for zone, rows in question.cluster.zones.items()
        if (tightest := first(lambda nodes, rows=rows: bool((nodes & rows).any()))) is not None  # type: ignore[misc]
    ]
    return Thresholds(
        index,
        toleration,
        tuple(steps),
        now,
        step(first(lambda nodes: int(np.count_nonzero(nodes)) >= keep)),
        step(first(lambda nodes: int(np.count_nonzero(nodes)) >= int(np.count_nonzero(most))))
        if most.any()
        else None,
        tuple((zone, steps[at]) for zone, at in sorted(kept, key=lambda each: (-each[1], each[0]))),
    )


def ordered_tolerations(written: Sequence[Toleration]) -> list[int]:
    """Return which tolerations have a threshold that can be read."""
    return [
        at
        for at, each in enumerate(written)
        if each.key
        and not each.expression
        and (comparison := find_comparison(each.operator)) is not None
        and comparison.direction
        and comparison.limit_for(each.value)
    ]
