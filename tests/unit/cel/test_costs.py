"""Prices: saturating arithmetic, inline forms, what the table promises."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.cel import costs
from weir.cel.cost_model import MAX, Range, scaled
from weir.cel.costs import fifth, quarter, tenth
from weir.cel.list_costs import walk_cost
from weir.cel.values import Duration
from weir.devices.expression import environment, read_device
from weir.objects.core import Taint
from weir.taints.expression import ENV

sizes = st.integers(min_value=0, max_value=MAX)
small = st.integers(min_value=0, max_value=100_000_000)


@given(small)
def test_integer_forms_are_the_rounded_products(size: int) -> None:
    assert (tenth(size), fifth(size), quarter(size)) == (
        math.ceil(size * 0.1),
        math.ceil(size * 2 * 0.1),
        math.ceil(size * 0.25),
    )


@given(sizes, sizes, sizes, sizes)
def test_nothing_leaves_64_bits(a: int, b: int, c: int, d: int) -> None:
    one, other = Range(a, b), Range(c, d)
    for result in (one.plus(other), one.times(other), one.scaled(0.1), one.scaled(2.1), one.union(other)):
        assert 0 <= result.min <= MAX and 0 <= result.max <= MAX


@given(sizes, sizes)
def test_sums_and_products_are_exact_until_they_saturate(a: int, b: int) -> None:
    assert Range(a, a).plus(Range(b, b)).max == min(a + b, MAX)
    assert Range(a, a).times(Range(b, b)).max == min(a * b, MAX)


def test_a_tenth_of_the_largest_number_is_the_documented_one() -> None:
    assert scaled(MAX, 0.1) == 1844674407370955264


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a" * 19, 1), ("é" * 10, 2), (b"x" * 9, 0), ([1, 2.0, True, None], 4), (["a" * 10, "b"], 1),
        ({"k" * 10: 1}, 2), ([[1], [2, 3]], 3), (Duration(1), 1), ((1, "a" * 20), 3),
        (Taint("a" * 20, "b" * 9, "NoSchedule"), 3), ([Taint("k" * 30, "", "NoExecute")], 3),
    ],
)  # fmt: skip
def test_walking_a_value_costs_one_for_each_leaf_and_a_tenth_of_texts(value: object, expected: int) -> None:
    assert walk_cost(value) == expected


def test_every_runtime_price_has_an_inline_form_that_says_the_same() -> None:
    wrong = []
    for function in ENV.functions.values():
        for overload in function.overloads:
            price = overload.cost
            if price is None or price.inline is None or price.constant is not None:
                continue
            args = ["abcdefghijk"[: 3 + i] * (i + 1) for i in range(len(overload.params))]
            names = {f"n{i}": len(arg) for i, arg in enumerate(args)}
            inline = eval(price.inline.format(**names), {"min": min})
            if inline != price.rule(args, None):
                wrong.append(overload.id)
    assert wrong == []


def test_prices_keyed_by_name_are_asked_for_unresolved_calls_too() -> None:
    by_name = {
        function.name
        for function in ENV.functions.values()
        for overload in function.overloads
        if overload.cost is not None and overload.cost.by_name
    }
    assert {
        "lowerAscii",
        "split",
        "quantity",
        "semver",
        "isIP",
        "find",
        "indexOf",
        "join",
        "validate",
    } <= by_name
    assert not {"startsWith", "contains", "_+_", "sort", "matches", "size"} & by_name


def test_a_rule_gives_both_fields_of_an_overload() -> None:
    assert set(costs.READ.prices) == {"cost", "static"}


def test_an_environment_with_fewer_fields_changes_no_price_of_another() -> None:
    device = read_device("gpu.example.com", {"attributes": {"model": {"string": "a100"}}})
    build = environment.__wrapped__  # anew, whatever other tests have built
    build(list_attributes=True, multiple_allocations=True)
    before = walk_cost(device)
    build(list_attributes=False, multiple_allocations=False)
    assert walk_cost(device) == before
