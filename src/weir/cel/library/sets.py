"""Sets: lists taken as sets, `sets.contains`, `sets.equivalent`, `sets.intersects`.

Spec: cel.md 10.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from weir.cel import list_costs
from weir.cel.cost_model import Rule
from weir.cel.env import Function, Library
from weir.cel.library.declare import bounded, function, plain
from weir.cel.library.lists import identity, index_of
from weir.cel.types import BOOL, LIST_OF_A
from weir.cel.values import Value

#: More comparisons than this are beyond any budget.
_MOST_PAIRS: Final = 4_000_000


def contains(whole: Sequence[Value], part: Sequence[Value]) -> bool:
    """Return whether every element of *part* is in *whole*."""
    _affordable(whole, part)
    return all(map(_member(whole), part))


def intersects(one: Sequence[Value], other: Sequence[Value]) -> bool:
    """Return whether the lists share an element."""
    _affordable(one, other)
    return any(map(_member(one), other))


def equivalent(one: Sequence[Value], other: Sequence[Value]) -> bool:
    """Return whether each list holds all elements of the other."""
    return contains(one, other) and contains(other, one)


def _affordable(one: Sequence[Value], other: Sequence[Value]) -> None:
    """Stop before work that its price would not allow."""
    bounded(len(one) * len(other), _MOST_PAIRS)


def _member(values: Sequence[Value]) -> Callable[[Value], bool]:
    """Return a test for membership in *values*: by hash where a value has one, else one by one."""
    known = {identity(value) for value in values}

    def member(value: Value) -> bool:
        key = identity(value)
        return index_of(values, value) >= 0 if key is None else key in known

    return member


def _declare(name: str, id: str, test: Callable[..., bool], price: Rule) -> Function:
    return function(name, plain(id, (LIST_OF_A, LIST_OF_A), BOOL, test, price))


LIBRARY: Final = Library(
    "sets",
    (
        _declare("sets.contains", "list_sets_contains_list", contains, list_costs.SETS),
        _declare("sets.equivalent", "list_sets_equivalent_list", equivalent, list_costs.SETS_BOTH_WAYS),
        _declare("sets.intersects", "list_sets_intersects_list", intersects, list_costs.SETS),
    ),
)
