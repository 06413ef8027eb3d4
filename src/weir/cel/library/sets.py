"""Sets: lists taken as sets, `sets.contains`, `sets.equivalent`, `sets.intersects`.

Spec: cel.md 10.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from weir.cel import list_costs
from weir.cel.cost_model import Rule
from weir.cel.env import Function, Library
from weir.cel.library.declare import function, plain
from weir.cel.library.lists import identity, index_of, long_texts
from weir.cel.types import BOOL, LIST_OF_A
from weir.cel.values import Value
from weir.cel.work import spend

#: Units of finding the identity of one element.
_PER_ELEMENT: Final = 5


def contains(whole: Sequence[Value], part: Sequence[Value]) -> bool:
    """Return whether every element of *part* is in *whole*."""
    _charge(whole, part)
    return all(map(_member(whole), part))


def intersects(one: Sequence[Value], other: Sequence[Value]) -> bool:
    """Return whether the lists share an element."""
    _charge(one, other)
    return any(map(_member(one), other))


def equivalent(one: Sequence[Value], other: Sequence[Value]) -> bool:
    """Return whether each list holds all elements of the other."""
    return contains(one, other) and contains(other, one)


def _charge(one: Sequence[Value], other: Sequence[Value]) -> None:
    """Charge for looking at every element once; elements without an identity are charged when they are compared."""
    spend((len(one) + len(other)) * _PER_ELEMENT)
    spend((long_texts(one) + long_texts(other)) >> 8)


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
