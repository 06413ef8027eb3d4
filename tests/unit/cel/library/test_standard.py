"""Operators: arithmetic, ordering, sizes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cel.library import costs, error, value
from weir.cel.library.standard import divide_towards_zero, remainder
from weir.cel.values import UInt

int64s = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7 / 2", 3), ("-7 / 2", -3), ("7 / -2", -3), ("-7 % 3", -1), ("7 % -3", 1), ("7u / 2u", 3), ("7u % 4u", 3),
        ("1.0 / 0.0", math.inf), ("-1.0 / 0.0", -math.inf), ("1.0 / -0.0", -math.inf), ("2 * 3 - 4", 2),
        ("'a' + 'b'", "ab"), ("b'a' + b'b'", b"ab"), ("[1] + [2]", [1, 2]), ("-(3)", -3), ("-(1.5)", -1.5),
        ("1 < 1.5", True), ("1u < 2", True), ("2.0 >= 2u", True), ("-1 < 0u", True), ("false < true", True),
        ("'Z' < 'a'", True), ("'😀' > 'z'", True), ("b'a' <= b'a'", True), ("size('😀é')", 2), ("size(b'\\xff')", 1),
        ("[1, 2].size()", 2), ("{'a': 1}.size()", 1), ("'abc'.contains('')", True), ("'abc'.endsWith('bc')", True),
        ("9223372036854775807 < 9223372036854775808.0", False), ("!(1 == 2)", True),
    ],
)  # fmt: skip
def test_an_operator_gives_its_value(expression: str, expected: Any) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / 0 == 0", "division by zero"),
        ("1u % 0u == 0u", "modulus by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("-9223372036854775808 - 1 == 0", "integer overflow"),
        ("-9223372036854775808 / -1 == 0", "integer overflow"),
        ("-9223372036854775808 % -1 == 0", "integer overflow"),
        ("-(-9223372036854775808) == 0", "integer overflow"),
        ("4611686018427387904 * 2 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("18446744073709551615u * 2u == 0u", "unsigned integer overflow"),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("1 < 0.0 / 0.0", "NaN values cannot be ordered"),
    ],
)
def test_arithmetic_that_leaves_its_range_says_so(expression: str, message: str) -> None:
    assert error(expression) == message


def test_unsigned_arithmetic_stays_unsigned() -> None:
    assert value("1u + 2u").__class__ is UInt


@given(int64s, int64s.filter(bool))
def test_quotient_and_remainder_rebuild_the_dividend(a: int, b: int) -> None:
    rest = remainder(a, b)
    assert (
        divide_towards_zero(a, b) * b + rest == a
        and abs(rest) < abs(b)
        and (rest == 0 or (rest < 0) == (a < 0))
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("taint.key == taint.value", (5, 11, 5)),
        ("taint.key.contains('example')", (2, 34, 4)),
        ("taint.key.startsWith('example.com')", (4, 4, 4)),
        ("taint.key + taint.value", (4, 42, 6)),
        ("taint.key in [taint.value, 'b']", (16, 16, 16)),
        ("taint.key in ['a', 'b']", (14, 14, 2)),
        ("[1, 2][0]", (11, 11, 2)),
        ("1 + 2 * 3", (2, 2, 2)),
        ("taint.key < 'm'", (3, 3, 3)),
        ("taint.key == 'a' && taint.value == 'b'", (3, 6, 3)),
        ("taint.key == 'a' ? taint.value : taint.key", (5, 5, 4)),
        ("has(taint.key)", (1, 1, 1)),
    ],
)
def test_an_operator_costs_what_kubernetes_charges(expression: str, expected: tuple[int, int, int]) -> None:
    assert costs(expression) == expected
