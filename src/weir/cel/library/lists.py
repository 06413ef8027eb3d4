"""Lists: Kubernetes' `isSorted`, `sum`, `min`, `indexOf` … and the extension's `slice`, `sort`, `flatten` …; sets.

Spec: cel.md 10.4. `min` and `indexOf` on a list of strings that is no variable are too complex
(the size of the elements is not known); `sort` fails on mixed types; `includes` works on any value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import Final

from weir.cel import costs
from weir.cel.cost_model import Rule
from weir.cel.env import Library
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.library.declare import Row, functions, method, plain
from weir.cel.library.standard import int64, uint64
from weir.cel.library.times import duration
from weir.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST_OF_A,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    T,
    Type,
    list_of,
)
from weir.cel.values import Duration, Timestamp, UInt, Value, same, type_of
from weir.cel.work import MOST_ELEMENTS, grow, spend

_COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_MOST_RANGE: Final = 1_000_000
#: Units of comparing one element by a Python function.
_PER_COMPARISON: Final = 7
_NUMBERS: Final = frozenset({int, UInt, float})
_DIRECT: Final = frozenset({int, UInt, float, str, bytes})
#: Comparing more elements than this each with each is beyond any budget.
_MOST_COMPARED: Final = 5_000


def identity(value: Value) -> Hashable | None:
    """Return a key that is equal exactly for values CEL calls equal, or None when there is no such key."""
    kind = value.__class__
    if kind is bool:
        return ("bool", value)
    if kind in (int, UInt, str, bytes, Duration, Timestamp):
        return ("", value)
    if kind is float and value == value:
        return ("", value)
    return None


def distinct(values: Sequence[Value]) -> list[Value]:
    """Return the first occurrences, in order."""
    grow(len(values), _MOST_COMPARED)
    spend(len(values) * _PER_COMPARISON)
    spend(long_texts(values) >> 8)
    seen: set[Hashable] = set()
    unhashed: list[Value] = []
    found: list[Value] = []
    for value in values:
        key = identity(value)
        if key is None:
            spend(len(unhashed) * _PER_COMPARISON)
            if any(same(value, other) for other in unhashed):
                continue
            unhashed.append(value)
        elif key in seen:
            continue
        else:
            seen.add(key)
        found.append(value)
    return found


def index_of(values: Sequence[Value], wanted: Value) -> int:
    """Return the first position of *wanted*, or -1."""
    spend(_comparing(values, wanted) >> 2)
    if wanted.__class__ in _DIRECT:
        # Python's own search finds the same, but for True, which it takes for 1.
        try:
            found = values.index(wanted)
        except ValueError:
            return -1
        if values[found].__class__ is not bool and same(values[found], wanted):
            return found
    spend(len(values) * _PER_COMPARISON)
    return next((index for index, value in enumerate(values) if same(value, wanted)), -1)


def _comparing(values: Sequence[Value], wanted: Value) -> int:
    """Return how many elements, and long texts, are compared with *wanted* at worst: a text counts 64 times its KiB."""
    long = len(wanted) >> 4 if wanted.__class__ is str or wanted.__class__ is bytes else 0
    return len(values) * (1 + long)


def last_index_of(values: Sequence[Value], wanted: Value) -> int:
    """Return the last position of *wanted*, or -1."""
    spend(len(values) * _PER_COMPARISON + (_comparing(values, wanted) >> 2))
    return next((index for index in reversed(range(len(values))) if same(values[index], wanted)), -1)


def includes(container: Value, wanted: Value) -> bool:
    """Return whether a list holds *wanted*, or any other value equals it."""
    if container.__class__ in (list, tuple):
        return index_of(container, wanted) >= 0
    return same(container, wanted)


def _compare(a: Value, b: Value) -> int:
    """Return -1, 0 or 1; 0 also for NaN and for values that have no common order, as upstream ignores the error."""
    kind = a.__class__
    if kind is not b.__class__ and not (kind in _NUMBERS and b.__class__ in _NUMBERS):
        return 0
    return int(a > b) - int(a < b)


def _comparable(values: Sequence[Value]) -> None:
    """Refuse a list from dyn that holds what has no order, and charge for comparing its elements."""
    spend(len(values) * _PER_COMPARISON)
    spend(long_texts(values) >> 8)
    if any(type_of(value) not in _COMPARABLE for value in values):
        raise EvaluationError(NO_SUCH_OVERLOAD)


def long_texts(values: Sequence[Value]) -> int:
    """Return the characters of the texts among *values*."""
    return sum(len(value) for value in values if value.__class__ is str or value.__class__ is bytes)


def is_sorted(values: Sequence[Value]) -> bool:
    """Return whether no element is below the one before it."""
    _comparable(values)
    return all(_compare(a, b) <= 0 for a, b in pairwise(values))


def _extreme(name: str, sign: int) -> Callable[[Sequence[Value]], Value]:
    def extreme(values: Sequence[Value]) -> Value:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        _comparable(values)
        found = values[0]
        for value in values[1:]:
            if _compare(value, found) * sign > 0:
                found = value
        return found

    return extreme


def _sum(kind: type, zero: Value, add: Callable[[Value, Value], Value]) -> Callable[[Sequence[Value]], Value]:
    """Return the sum of values of one kind; another one among them (a list from dyn) has no `+`."""

    def total(values: Sequence[Value]) -> Value:
        spend(len(values) * _PER_COMPARISON)
        found = zero
        for value in values:
            if value.__class__ is not kind:
                raise EvaluationError(NO_SUCH_OVERLOAD)
            found = add(found, value)
        return found

    return total


_SUMS: Final[tuple[tuple[Type, Callable[..., Value]], ...]] = (
    (INT, _sum(int, 0, lambda a, b: int64(a + b))),
    (UINT, _sum(UInt, UInt(0), lambda a, b: uint64(int(a) + int(b)))),
    (DOUBLE, _sum(float, 0.0, lambda a, b: a + b)),  # not sum(): newer Pythons compensate rounding
    (DURATION, _sum(Duration, Duration(0), lambda a, b: duration(a.ns + b.ns))),
)


def cut(values: Sequence[Value], start: int, end: int) -> list[Value]:
    """Return the elements from *start* up to *end*."""
    problem = ""
    if start < 0 or end < 0:
        problem = "negative indexes not supported"
    elif start > end:
        problem = "start index must be less than or equal to end index"
    elif end > len(values):
        problem = f"list is length {len(values)}"
    if problem:
        raise EvaluationError(f"cannot slice({start}, {end}), {problem}")
    spend(end - start >> 2)
    return list(values[start:end])


def reverse(values: Sequence[Value]) -> list[Value]:
    """Return the elements from the last to the first."""
    spend(len(values) >> 2)
    return list(values[::-1])


def flatten(values: Sequence[Value], depth: int = 1) -> list[Value]:
    """Return the elements with lists up to *depth* levels deep opened up."""
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    spend(len(values) >> 2)
    flat: list[Value] = list(values)
    for _ in range(depth):
        spend(len(flat) * 4)
        if not any(value.__class__ in (list, tuple) for value in flat):
            break
        opened: list[Value] = []
        for value in flat:
            if value.__class__ in (list, tuple):
                spend(len(value) >> 2)
                opened.extend(value)
            else:
                opened.append(value)
            grow(len(opened), MOST_ELEMENTS)
        flat = opened
    return flat


def sort(values: Sequence[Value]) -> list[Value]:
    """Return the elements in ascending order."""
    return sort_by(values, values)


def sort_by(values: Sequence[Value], keys: Sequence[Value]) -> list[Value]:
    """Return the elements in the ascending order of their keys."""
    if len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(values)} and {len(keys)} elements respectively"
        )
    grow(len(keys), _MOST_COMPARED)
    spend(len(keys) * (_PER_COMPARISON + len(keys).bit_length()))
    spend(long_texts(keys) * len(keys).bit_length() >> 8)
    if not keys:
        return list(values)
    kind = type_of(keys[0])
    if kind not in _COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if any(type_of(key) != kind for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = sorted(range(len(keys)), key=_sort_key(keys, kind))
    return [values[index] for index in order]


def _sort_key(keys: Sequence[Value], kind: Type) -> Callable[[int], Value]:
    if kind == DOUBLE and any(key != key for key in keys):
        by_value = cmp_to_key(_loosely)
        return lambda index: by_value(keys[index])
    return lambda index: keys[index]


def _loosely(a: float, b: float) -> int:
    """Compare doubles with NaN neither above nor below anything."""
    return (a > b) - (a < b)


def make_range(count: int) -> list[int]:
    """Return 0 up to *count* - 1."""
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _MOST_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({_MOST_RANGE})")
    spend(count * 3 >> 3)
    return list(range(count))


def _short(of: Type) -> str:
    return {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}.get(
        of.name, of.name
    )


def _per_type(
    name: str, id: str, impl: Callable[..., Value], *, returns: Type | None = None, fails: bool = True
) -> list[Row]:
    """Return one of Kubernetes' list functions, with an overload per comparable element type."""
    return [
        method(name, id.format(_short(of)), (list_of(of),), returns or of, impl, costs.SCAN, fails=fails)
        for of in _COMPARABLE
    ]


def _sorts(name: str, id: str, *, by: bool) -> list[Row]:
    rules = (costs.SORT_BY, costs.SORT_BY_TEXT) if by else (costs.SORT, costs.SORT_TEXT)
    return [
        method(
            name,
            f"list_{of.name}_{id}",
            (list_of(T), list_of(of)) if by else (list_of(of),),
            list_of(T) if by else list_of(of),
            sort_by if by else sort,
            rules[of in (STRING, BYTES)],
            fails=True,
        )
        for of in _COMPARABLE
    ]


LIBRARY: Final = Library(
    "lists",
    functions(
        *_per_type("isSorted", "list_{}_is_sorted_bool", is_sorted, returns=BOOL),
        *(
            method(
                "sum",
                f"list_{_short(of)}_sum_{_short(of)}",
                (list_of(of),),
                of,
                impl,
                costs.SCAN,
                fails=of != DOUBLE,
            )
            for of, impl in _SUMS
        ),
        *_per_type("min", "list_{0}_min_{0}", _extreme("min", -1)),
        *_per_type("max", "list_{0}_max_{0}", _extreme("max", 1)),
        method("indexOf", "list_a_index_of_int", (LIST_OF_A, A), INT, index_of, costs.SCAN),
        method("lastIndexOf", "list_a_last_index_of_int", (LIST_OF_A, A), INT, last_index_of, costs.SCAN),
        method("includes", "list_includes_dyn_dyn", (DYN, DYN), BOOL, includes, costs.INCLUDES),
        method("slice", "list_slice", (LIST_OF_A, INT, INT), LIST_OF_A, cut, costs.SLICE, fails=True),
        method("flatten", "list_flatten", (list_of(LIST_OF_A),), LIST_OF_A, flatten, costs.FLATTEN),
        method("flatten", "list_flatten_int", (list_of(DYN), INT), list_of(DYN), flatten, costs.FLATTEN, fails=True),
        *_sorts("sort", "sort", by=False),
        *_sorts("@sortByAssociatedKeys", "sortByAssociatedKeys", by=True),
        plain("lists.range", "lists_range", (INT,), list_of(INT), make_range, costs.RANGE, fails=True),
        method("reverse", "list_reverse", (LIST_OF_A,), LIST_OF_A, reverse, costs.REVERSE),
        method("distinct", "list_distinct", (LIST_OF_A,), LIST_OF_A, distinct, costs.DISTINCT),
    ),
    macros=frozenset({"sort_by"}),
)  # fmt: skip


# ── sets ──────────────────────────────────────────────────────────────────────────────────────────────


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


def _declare(name: str, id: str, test: Callable[..., bool], price: Rule) -> Row:
    return plain(name, id, (LIST_OF_A, LIST_OF_A), BOOL, test, price)


SETS: Final = Library(
    "sets",
    functions(
        _declare("sets.contains", "list_sets_contains_list", contains, costs.SETS),
        _declare("sets.equivalent", "list_sets_equivalent_list", equivalent, costs.SETS_BOTH_WAYS),
        _declare("sets.intersects", "list_sets_intersects_list", intersects, costs.SETS),
    ),
)
