"""Conversions between types, and what cannot be converted."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cel.library import error, value
from weir.cel.library.conversions import (
    double_of_string,
    duration_of_string,
    int_of_string,
    timestamp_of_string,
)
from weir.cel.values import Duration
from weir.values.duration import format_duration
from weir.values.floats import format_float
from weir.values.timestamp import MAX_SECONDS, MIN_SECONDS, NANOSECONDS, format_timestamp


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("int(1.9)", 1), ("int(-1.9)", -1), ("int('+5')", 5), ("int('-007')", -7), ("int(3u)", 3),
        ("int(timestamp('1970-01-01T00:01:00.5Z'))", 60), ("int(duration('1s'))", 10**9), ("uint('5')", 5),
        ("uint(2.7)", 2), ("uint(-0.0)", 0), ("double('0x1p4')", 16.0), ("double('1_000.5')", 1000.5),
        ("double('-inf')", -math.inf), ("double(3)", 3.0), ("bool('T')", True), ("bool('False')", False),
        ("string(1.0)", "1"), ("string(1e21)", "1e+21"), ("string(123456789.0)", "1.23456789e+08"),
        ("string(100000.0)", "100000"), ("string(1000000.0)", "1e+06"), ("string(0.0001)", "0.0001"),
        ("string(0.00001)", "1e-05"), ("string(-0.0)", "-0"), ("string(double('nan'))", "NaN"),
        ("string(true)", "true"), ("string(7u)", "7"), ("string(b'\\xc3\\xa9')", "é"), ("bytes('é')", b"\xc3\xa9"),
        ("string(duration('1h30m'))", "5400s"), ("string(duration('100ms'))", "0.1s"),
        ("string(timestamp('2020-01-01T00:00:00.50+02:00'))", "2020-01-01T00:00:00.5+02:00"), ("dyn(1)", 1),
        ("type(1u) == uint", True), ("type([]) == list", True), ("type(type(1)) == type", True),
        ("type(null) == null_type", True),
    ],
)  # fmt: skip
def test_a_conversion_gives_its_value(expression: str, expected: Any) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("int('0x10')", "type conversion error from 'string' to 'int'"),
        ("int(' 5')", "type conversion error from 'string' to 'int'"),
        ("int('٣')", "type conversion error from 'string' to 'int'"),
        ("int('9223372036854775808')", "type conversion error from 'string' to 'int'"),
        ("uint('+5')", "type conversion error from 'string' to 'uint'"),
        ("double('1e400')", "type conversion error from 'string' to 'double'"),
        ("double('_1')", "type conversion error from 'string' to 'double'"),
        ("double('0x10')", "type conversion error from 'string' to 'double'"),
        ("bool('TrUe')", "type conversion error from 'string' to 'bool'"),
        ("int(1e99)", "integer overflow"),
        ("int(double('nan'))", "integer overflow"),
        ("int(18446744073709551615u)", "integer overflow"),
        ("uint(-1)", "unsigned integer overflow"),
        ("uint(-0.5)", "unsigned integer overflow"),
        ("string(b'\\xff')", "invalid UTF-8 in bytes, cannot convert to string"),
        ("duration(taint.value)", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("timestamp(taint.value)", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("timestamp(size(taint.key) * 253402300800)", "timestamp overflow"),
    ],
)
def test_what_cannot_be_converted_says_so(expression: str, message: str) -> None:
    assert error(expression) == message


@given(st.floats())
def test_a_double_survives_its_text(number: float) -> None:
    back = double_of_string(format_float(number))
    assert back == number or (math.isnan(back) and math.isnan(number))


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_an_int_survives_its_text(number: int) -> None:
    assert int_of_string(str(number)) == number


@given(st.integers(min_value=MIN_SECONDS * NANOSECONDS, max_value=MAX_SECONDS * NANOSECONDS))
def test_an_instant_survives_its_text(instant: int) -> None:
    assert timestamp_of_string(format_timestamp(instant)).ns == instant


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_a_duration_of_milliseconds_survives_its_text(milliseconds: int) -> None:
    span = milliseconds * 1_000_000
    assert abs(duration_of_string(format_duration(span)).ns - Duration(span).ns) < 1_000
