"""Prices are pairs of numbers that saturate at 64 bits."""

from __future__ import annotations

import pytest

from weir.cel import ast, types
from weir.cel.cost_model import (
    MAX,
    ONE,
    UNKNOWN_SIZE,
    ZERO,
    Charge,
    Operand,
    Range,
    Rule,
    StaticCost,
    fixed,
    scaled,
)


def test_the_largest_number_is_that_of_64_bits() -> None:
    assert MAX == 18446744073709551615
    assert (Range(0, 0), Range(1, 1), Range(0, MAX)) == (ZERO, ONE, UNKNOWN_SIZE)


def test_pairs_are_added_and_multiplied_number_by_number() -> None:
    assert Range(2, 5).plus(Range(10, 100)) == Range(12, 105)
    assert Range(2, 5).times(Range(10, 100)) == Range(20, 500)
    assert Range(2, 5).union(Range(1, 3)) == Range(1, 5)
    assert Range(2, 5).union(Range(3, 9)) == Range(2, 9)
    assert fixed(7) == Range(7, 7)


def test_pairs_saturate() -> None:
    large = Range(MAX - 1, MAX)
    assert large.plus(Range(1, 1)) == Range(MAX, MAX)
    assert large.plus(Range(5, 0)) == Range(MAX, MAX)
    assert large.times(Range(2, 2)) == Range(MAX, MAX)
    assert large.times(Range(1, 1)) == large


@pytest.mark.parametrize(
    "number, factor, product",
    [
        (10, 0.1, 1),
        (11, 0.1, 2),
        (0, 0.1, 0),
        (1, 0.25, 1),
        (MAX, 1.0, MAX),
        (MAX, 2.0, MAX),
        (2**63, 2.0, MAX),
        (2**63, 1.0, 2**63),
        (3, 2.0, 6),
    ],
)
def test_a_fraction_is_rounded_up(number: int, factor: float, product: int) -> None:
    assert scaled(number, factor) == product
    assert Range(0, number).scaled(factor) == Range(0, product)
    assert fixed(number).scaled(factor) == fixed(product)


def test_an_operand_has_the_type_of_its_node() -> None:
    node = ast.Literal(0, 0, 5)
    node.type = types.INT
    assert Operand(node, ONE, True, UNKNOWN_SIZE).type is types.INT


def test_a_charge_knows_the_size_of_what_it_returns_only_if_told() -> None:
    assert (Charge(ONE).size, Charge(ONE, ZERO).size) == (None, ZERO)


def test_a_rule_gives_both_of_its_halves() -> None:
    def static(operands: object) -> Charge:
        return Charge(ONE)

    def runtime(*values: object) -> int:
        return 1

    rule = Rule("one", static, runtime)  # type: ignore[arg-type]
    assert rule.prices == {"cost": runtime, "static": StaticCost(static, "one")}
