"""Lists, sets, optionals and two-variable comprehensions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cel.library import costs, error, value
from weir.cel.errors import EvaluationError
from weir.cel.library.lists import (
    contains,
    distinct,
    equivalent,
    identity,
    index_of,
    intersects,
    last_index_of,
)
from weir.cel.library.two_variable import insert, insert_in_place
from weir.cel.values import NONE, Optional, UInt, equal

scalars = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.integers(0, 3).map(UInt),
    st.floats(-3, 3).map(round).map(float),
    st.just(float("nan")),
    st.text("ab", max_size=2),
    st.none(),
    st.lists(st.integers(0, 2), max_size=2),
)
lists = st.lists(scalars, max_size=8)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("[1, 2, 2].isSorted()", True), ("['b', 'a'].isSorted()", False), ("[].isSorted()", True),
        ("[1, 2].sum()", 3), ("[].sum()", 0), ("[1.5, 2.0].sum()", 3.5), ("[1u].sum()", 1),
        ("[duration('1h'), duration('30m')].sum() == duration('90m')", True), ("[3, 1].min()", 1),
        ("['a', 'b'].max()", "b"), ("[1, 2, 2].indexOf(2)", 1), ("[1, 2, 2].lastIndexOf(2)", 2), ("[1].indexOf(3)", -1),
        ("[1, 2].includes(2)", True), ("'a'.includes('a')", True), ("dyn([1, 2]).includes(2.0)", True),
        ("[1, 2, 3].slice(1, 3)", [2, 3]), ("[[1], [2, 3]].flatten()", [1, 2, 3]),
        ("[[[1]], [[2]]].flatten(2)", [1, 2]), ("[[1], [2]].flatten(0)", [[1], [2]]), ("[3, 1, 2].sort()", [1, 2, 3]),
        ("['b', 'a'].sortBy(x, x)", ["a", "b"]), ("[1, 2].sortBy(x, -x)", [2, 1]), ("lists.range(3)", [0, 1, 2]),
        ("[1, 2].reverse()", [2, 1]), ("[1, 1, 2].distinct()", [1, 2]),
        ("[dyn(1), dyn(1.0), dyn('a')].distinct()", [1, "a"]),
        ("sets.contains([1, 2], [1])", True), ("sets.contains([], [1])", False), ("sets.intersects([1], [2])", False),
        ("sets.equivalent([1, 1, 2], [2, 1])", True), ("sets.equivalent([], [])", True),
        ("[1, 2].first()", Optional(1)), ("[1, 2].last()", Optional(2)), ("[].first()", NONE),
        ("optional.unwrap([optional.of(1), optional.none()])", [1]), ("[optional.of(1)].unwrapOpt()", [1]),
        ("optional.ofNonZeroValue('')", NONE), ("optional.ofNonZeroValue([])", NONE),
        ("optional.ofNonZeroValue(timestamp(0)).hasValue()", True), ("optional.ofNonZeroValue(duration('0'))", NONE),
        ("optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z'))", NONE), ("optional.of(null).hasValue()", True),
        ("optional.none().orValue(5)", 5), ("optional.of(1).or(optional.of(2)).value()", 1),
        ("{'a': 1}.?b.orValue(5)", 5), ("[1][?3].hasValue()", False), ("{'a': 1}[?'a'].optMap(v, v * 2).value()", 2),
        ("[7, 8].transformMap(i, v, v)", {0: 7, 1: 8}), ("{'a': 1}.transformMapEntry(k, v, {v: k})", {1: "a"}),
        ("[1, 2].transformList(i, v, v > 1, i + v)", [3]), ("{'a': 1}.exists(k, v, v == 1)", True),
    ],
)  # fmt: skip
def test_a_call_gives_its_value(expression: str, expected: Any) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[].min()", "min called on empty list"),
        ("[].max()", "max called on empty list"),
        ("[9223372036854775807, 1].sum()", "integer overflow"),
        ("[1, 2].slice(-1, 1)", "cannot slice(-1, 1), negative indexes not supported"),
        ("[1, 2].slice(2, 1)", "cannot slice(2, 1), start index must be less than or equal to end index"),
        ("[1, 2].slice(1, 5)", "cannot slice(1, 5), list is length 2"),
        ("[[1]].flatten(-1)", "level must be non-negative"),
        ("dyn([dyn(1), dyn('a')]).sort()", "list elements must have the same type"),
        ("lists.range(-1)", "lists.range: size must be non-negative, got -1"),
        ("lists.range(1000001)", "lists.range: size 1000001 exceeds maximum allowed (1000000)"),
        ("optional.none().value()", "optional.none() dereference"),
        ("[1, 1].transformMapEntry(i, v, {v: i})", "insert failed: key 1 already exists"),
    ],
)
def test_a_call_that_fails_says_why(expression: str, message: str) -> None:
    assert error(expression) == message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("[1, 2, 3].sum()", (13, 13, 3)),
        ("['b', 'a'].isSorted()", (12, 3689348814741910540, 0)),
        ("['a', 'b'].includes(taint.value)", (14, 3689348814741910542, 2)),
        ("[1, 2].slice(0, 1)", (22, 22, 12)),
        ("[[1], [2, 3]].flatten()", (43, 43, 13)),
        ("[3, 1, 2].sort()", (39, 39, 29)),
        ("[taint.value, taint.key].sort()", (34, 34, 33)),
        ("['b', 'a'].sortBy(s, s)", (79, 79, 48)),
        ("lists.range(10)", (21, 21, 21)),
        ("lists.range(size(taint.value))", (2**64 - 1, 2**64 - 1, 19)),
        ("[1, 2].reverse()", (23, 23, 13)),
        ("[taint.value, 'a'].distinct()", (31, 31, 31)),
        ("sets.intersects(taint.key.split('.'), ['example'])", (13, 394, 8)),
        ("sets.equivalent([1, 2], [2])", (25, 25, 5)),
        ("{'a': 1}.transformMap(k, v, v + 1)", (66, 66, 6)),
        ("[1].all(x, x == 1)", (14, 16, 6)),
        ("[1, 2].map(x, x * 2)", (49, 49, 29)),
    ],
)
def test_a_call_costs_what_kubernetes_charges(expression: str, expected: tuple[int, int, int]) -> None:
    assert costs(expression) == expected


@given(scalars, scalars)
def test_two_values_with_a_key_are_equal_exactly_when_their_keys_are(a: Any, b: Any) -> None:
    if identity(a) is not None and identity(b) is not None:
        assert (identity(a) == identity(b)) == equal(a, b)


@given(lists)
def test_distinct_keeps_what_no_earlier_element_equals(values: list[Any]) -> None:
    kept = [v for i, v in enumerate(values) if not any(equal(v, w) for w in values[:i])]
    found = distinct(values)
    assert len(found) == len(kept) and all(a is b for a, b in zip(found, kept, strict=True))


@given(lists, scalars)
def test_index_of_is_the_first_equal_element(values: list[Any], wanted: Any) -> None:
    hits = [i for i, v in enumerate(values) if equal(v, wanted)]
    assert (index_of(values, wanted), last_index_of(values, wanted)) == (
        (hits or [-1])[0],
        (hits or [-1])[-1],
    )


@given(lists, lists)
def test_sets_are_the_plain_loops(one: list[Any], other: list[Any]) -> None:
    def inside(part: list[Any], whole: list[Any]) -> list[bool]:
        return [any(equal(w, p) for w in whole) for p in part]

    assert contains(one, other) == all(inside(other, one))
    assert intersects(one, other) == any(inside(other, one))
    assert equivalent(one, other) == (all(inside(other, one)) and all(inside(one, other)))


def test_inserting_copies_and_inserting_in_place_does_not() -> None:
    start: dict[Any, Any] = {"a": 1}
    copied = insert(start, "b", 2)
    placed = insert_in_place(start, "c", 3)
    assert (copied, placed is start) == ({"a": 1, "b": 2}, True)


def test_inserting_a_key_twice_fails() -> None:
    with pytest.raises(EvaluationError, match="insert failed: key true already exists"):
        insert({True: 1}, True, 2)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("dyn([dyn(1), dyn('a')]).sum() == 1", "no such overload"),
        ("dyn([dyn('a'), dyn(1)]).join() == ''", "unsupported type conversion from 'int' to string"),
        ("optional.unwrap([dyn(optional.of(1)), dyn(1)]).size() == 1", "no such overload"),
    ],
)
def test_a_list_that_is_mixed_at_run_time_fails_in_cels_words(expression: str, message: str) -> None:
    assert error(expression) == message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("[double('nan'), 1.0].isSorted()", True),
        ("[2.0, double('nan'), 1.0].min()", 1.0),
        ("dyn([dyn(3), dyn('a'), dyn(5)]).max()", 5),
        ("dyn([dyn(1), dyn(0.5)]).min()", 0.5),
    ],
)
def test_values_without_a_common_order_are_passed_over(expression: str, expected: object) -> None:
    assert value(expression) == expected
