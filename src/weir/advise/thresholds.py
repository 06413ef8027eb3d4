"""Thresholds that make a difference, and the nodes each keeps.

Only node values matter: between two of them nothing changes. So each candidate is the tightest threshold that still
accepts one of the values, and results are found by bisection: a looser threshold never accepts fewer nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from weir.advise.question import Question, read_tolerations
from weir.objects.core import Toleration
from weir.taints.operators import Comparison, find_comparison


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
    steps = candidates(question, toleration)
    now = Step(toleration.value, question.fitting())

    def at(position: int) -> Step:
        value = steps[position]
        return Step(value, question.fitting(question.with_value(index, value)))

    def first(holds: Callable[[Step], bool]) -> Step | None:
        position = bisect_left(range(len(steps)), True, key=lambda each: holds(at(each)))
        return at(position) if position < len(steps) else None

    if not steps:
        return Thresholds(index, toleration, (), now, None, None, ())
    most = at(len(steps) - 1)
    kept = []
    for zone in question.zones(most.nodes):
        step = first(partial(_keeps_zone, question, zone))
        if step is not None:
            kept.append((zone, step.value))
    order = {value: position for position, value in enumerate(steps)}
    return Thresholds(
        index,
        toleration,
        tuple(steps),
        now,
        first(lambda step: len(step.nodes) >= keep),
        first(lambda step: len(step.nodes) >= len(most.nodes)) if most.nodes else None,
        tuple(sorted(kept, key=lambda each: (-order[each[1]], each[0]))),
    )


def _keeps_zone(question: Question, zone: str, step: Step) -> bool:
    return zone in question.zones(step.nodes)


def candidates(question: Question, toleration: Toleration) -> list[str]:
    """Return the thresholds that make a difference for *toleration*, tightest first.

    Of the values that nodes have, each is taken by one of them and by all that follow.
    """
    comparison = find_comparison(toleration.operator)
    if comparison is None:
        return []
    values = {
        taint.value
        for node in question.world.nodes.values()
        for taint in node.taints
        if taint.key == toleration.key and toleration.effect in ("", taint.effect)
    }
    return ordered({limit for value in values if (limit := comparison.limit_for(value))}, comparison)


def ordered(limits: set[str], comparison: Comparison) -> list[str]:
    """Return limits tightest first; of two spellings of one version the shorter one.

    >>> from weir.taints.operators import OPERATORS
    >>> ordered({"5", "10", "7"}, OPERATORS["Gt"]), ordered({"1.10.0", "1.9.0"}, OPERATORS["SemverLt"])
    (['10', '7', '5'], ['1.9.0', '1.10.0'])
    """
    parse = comparison.scale.parse_label
    by_name = sorted(limits, key=lambda each: (len(each), each))
    ranked = sorted(by_name, key=parse, reverse=comparison.direction > 0)
    return [each for at, each in enumerate(ranked) if not at or parse(each) != parse(ranked[at - 1])]


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
