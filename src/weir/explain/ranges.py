"""Merges groups that differ in one number or version into one row with its range.

`sla 700–950, needs > 950: refused` for 4,216 nodes, instead of a row per value; the same for labels of selectors and
affinity. Versions with a suffix stay apart, because their explanation differs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from weir.explain.phrases import taint_name
from weir.explain.verdict import Group
from weir.explain.words import node_sentence
from weir.objects.core import Taint
from weir.scheduler.reasons import Reason, UnmetAffinity, UntoleratedTaint, WrongLabel
from weir.values.integer import IntegerError, parse_int64
from weir.values.semver import find_tolerant


class Spot(NamedTuple):
    """A value that is named in a row: of a taint or of a label."""

    what: str
    key: str
    value: str


def merged(groups: Sequence[Group]) -> list[Group]:
    """Return *groups* with those put together that differ only in one number or version; the closest speaks."""
    by_row: dict[Any, list[Group]] = {}
    for number, group in enumerate(groups):
        by_row.setdefault(_alike(group) or number, []).append(group)
    return [
        Group(alike[0].verdict, tuple(name for each in alike for name in each.nodes), _values(alike))
        for alike in by_row.values()
    ]


def range_sentences(groups: Sequence[Group]) -> list[str]:
    """Return what is said of each group, with the range of its values; effects that differ tell groups apart."""
    effects: dict[str, set[str]] = {}
    for group in groups:
        for taint in _taints(group):
            effects.setdefault(taint.key, set()).add(taint.effect)
    differing = frozenset(key for key, different in effects.items() if len(different) > 1)
    return [_range_sentence(group, differing) for group in groups]


def _taints(group: Group) -> list[Taint]:
    return [reason.taint for reason in group.verdict.reasons if isinstance(reason, UntoleratedTaint)]


def _range_sentence(group: Group, differing: Collection[str]) -> str:
    sentence = _with_effects(group, node_sentence(group.verdict), differing)
    if len(group.values) < 2:
        return sentence
    spot = _spot(group)
    assert spot is not None
    return _named(spot.key, spot.value).sub(f"{spot.key} {group.values[0]}–{group.values[-1]}", sentence)


def _named(key: str, value: str) -> re.Pattern[str]:
    """Return the pattern of a taint or label with its value, as sentences write it."""
    return re.compile(rf"(?<![\w./-]){re.escape(f'{key}={value}' if value else key)}(?![\w./-])")


def _with_effects(group: Group, sentence: str, differing: Collection[str]) -> str:
    """Return *sentence* with the effect behind each taint of a key in *differing*, unless it stands there."""
    for taint in _taints(group):
        if taint.key in differing:
            without = re.compile(
                _named(taint.key, taint.value).pattern + rf"(?! (?:\(|has the effect ){taint.effect})"
            )
            sentence = without.sub(f"{taint_name(taint)} ({taint.effect})", sentence, count=1)
    return sentence


def _alike(group: Group) -> tuple[Any, ...] | None:
    """Return what groups must share to be one row: everything but the value of the one spot."""
    spot = _spot(group)
    if spot is None:
        return None
    order = _order(spot.value)
    assert order is not None
    return (spot.what, spot.key, order[0], *(_without(reason, spot) for reason in group.verdict.reasons))


def _without(reason: Reason, spot: Spot) -> tuple[Any, ...]:
    """Return what makes *reason* what it is, but for the value of the spot."""
    if spot not in _spots(reason):
        return reason.group
    match reason:
        case UntoleratedTaint(taint, attempts):
            return (taint.key, taint.effect, *((each.toleration, each.outcome) for each in attempts))
        case UnmetAffinity(terms):
            return tuple(
                (
                    unmet.field,
                    unmet.index,
                    unmet.match,
                    None if unmet.requirement.key == spot.key else unmet.found,
                )
                for term in terms
                for unmet in term.unmet
            )
        case WrongLabel(key, wanted, _):
            return (key, wanted)
    raise AssertionError(reason)


def _spot(group: Group) -> Spot | None:
    """Return the first value of the row that can be put in order."""
    spots = (spot for reason in group.verdict.reasons for spot in _spots(reason))
    return next((spot for spot in spots if _order(spot.value) is not None), None)


def _spots(reason: Reason) -> Iterator[Spot]:
    match reason:
        case UntoleratedTaint(taint, _):
            yield Spot("taint", taint.key, taint.value)
        case WrongLabel(key, _, value) if value is not None:
            yield Spot("label", key, value)
        case UnmetAffinity(terms):
            for unmet in (each for term in terms for each in term.unmet):
                if unmet.field == "matchExpressions" and unmet.found is not None:
                    yield Spot("label", unmet.requirement.key, unmet.found)


def _order(value: str) -> tuple[str, Any] | None:
    """Return the place of a value among others of its kind, or None for words."""
    try:
        return ("number", parse_int64(value))
    except IntegerError:
        version = find_tolerant(value)
    return None if version is None or version.prerelease else ("version", version)


def _values(groups: Sequence[Group]) -> tuple[str, ...]:
    order_of = {
        spot.value: order for group in groups if (spot := _spot(group)) and (order := _order(spot.value))
    }
    return tuple(sorted(order_of, key=lambda value: order_of[value][1]))
