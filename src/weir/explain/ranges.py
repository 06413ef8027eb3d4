"""Which rows say the same but for one number? They are shown as one, with its range.

`sla 700–950, needs > 950: refused` for 4,216 nodes, instead of a row for every value.
Not here: what makes nodes one group (weir.explain.verdict).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weir.explain.verdict import Group
from weir.explain.words import node_sentence
from weir.scheduler.reasons import UntoleratedTaint
from weir.values.integer import IntegerError, parse_int64


def merged(groups: Sequence[Group]) -> list[Group]:
    """Return *groups* with those put together that differ only in the number of one taint; the closest speaks."""
    found: dict[Any, list[Group]] = {}
    for number, group in enumerate(groups):
        found.setdefault(_alike(group) or number, []).append(group)
    return [
        Group(alike[0].verdict, tuple(name for each in alike for name in each.nodes), _values(alike))
        for alike in found.values()
    ]


def range_sentence(group: Group) -> str:
    """Return what is said of the group, with the range of its values."""
    said = node_sentence(group.verdict)
    if len(group.values) < 2:
        return said
    taint = _one_taint(group)
    assert taint is not None
    low, high = min(group.values), max(group.values)
    return said.replace(f"{taint.taint.key}={taint.taint.value}", f"{taint.taint.key} {low}–{high}", 1)


def _alike(group: Group) -> tuple[Any, ...] | None:
    """Return what groups must share to be one row: everything but the number of the one taint."""
    taint = _one_taint(group)
    if taint is None or _number(taint) is None:
        return None
    attempts = tuple((a.toleration, a.outcome) for a in taint.attempts)
    others = tuple(reason.group for reason in group.verdict.reasons if reason is not taint)
    return (taint.taint.key, taint.taint.effect, attempts, others)


def _one_taint(group: Group) -> UntoleratedTaint | None:
    taints = [reason for reason in group.verdict.reasons if isinstance(reason, UntoleratedTaint)]
    return taints[0] if len(taints) == 1 else None


def _number(reason: UntoleratedTaint) -> int | None:
    try:
        return parse_int64(reason.taint.value)
    except IntegerError:
        return None


def _values(groups: Sequence[Group]) -> tuple[int, ...]:
    found = [
        number for group in groups if (taint := _one_taint(group)) and (number := _number(taint)) is not None
    ]
    return tuple(sorted(set(found)))
