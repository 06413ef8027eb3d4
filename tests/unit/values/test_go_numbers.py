"""Durations and floats as Go reads and prints them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.values.duration import DurationError, format_duration, parse_duration
from weir.values.floats import FloatError, format_fixed, format_float, parse_float

pytestmark = pytest.mark.proves("5471-55")


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0), ("-0", 0), ("1h", 3600 * 10**9), ("1h30m", 5400 * 10**9), ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("5.s", 5 * 10**9), ("1us", 1000), ("1µs", 1000), ("1μs", 1000), ("-1ms", -1_000_000), ("+1ns", 1),
        ("0.000000001s", 1), ("0.0000000019s", 1), ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)), ("1s1s", 2 * 10**9), ("0.100000000000000000000h", 360 * 10**9),
    ],
)  # fmt: skip
def test_durations_are_read(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "1",
        "s",
        ".s",
        "1d",
        "1 s",
        "1h-1m",
        "9223372036854775808ns",
        "-9223372036854775809ns",
        "3000000h",
        "١s",
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


@given(st.integers(min_value=-(2**53), max_value=2**53))
def test_whole_seconds_survive_their_text(seconds: int) -> None:
    assert format_duration(seconds * 10**9) == f"{seconds}s"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0), ("+1.5e3", 1500.0), (".5", 0.5), ("5.", 5.0), ("0x1p4", 16.0), ("0X.8P1", 1.0), ("1_000", 1000.0),
        ("0x_1p0", 1.0), ("iNf", math.inf), ("-Infinity", -math.inf), ("1e-400", 0.0), ("0x1.fp-2", 0.484375),
    ],
)  # fmt: skip
def test_floats_are_read(text: str, number: float) -> None:
    assert parse_float(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "1e",
        "e5",
        "0x10",
        "1__0",
        "_1",
        "1_",
        "1e400",
        "+nan",
        "--1",
        " 1",
        "1f",
        "0b1p0",
        "infin",
        "١",
    ],
)
def test_what_is_no_float_is_refused(text: str) -> None:
    with pytest.raises(FloatError):
        parse_float(text)


@given(st.floats(allow_nan=False))
def test_floats_survive_their_text(number: float) -> None:
    back = parse_float(format_float(number))
    assert (back, math.copysign(1, back)) == (number, math.copysign(1, number))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_fixed_form_has_no_exponent_and_survives(number: float) -> None:
    text = format_fixed(number)
    assert "e" not in text and float(text) == number
