"""Conversions between types: `int(x)`, `string(x)`, `duration(s)` and their kin.

Spec: cel.md 3.4. A conversion of a constant is computed when the program is built, so that a bad one is a program
error. `int(duration)` gives nanoseconds but `int(timestamp)` seconds; any negative double, even
-0.5, is no uint; bytes must be strict UTF-8 to become a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from weir.cel import costs, types
from weir.cel.errors import EvaluationError
from weir.cel.library.declare import Row, functions, plain
from weir.cel.library.standard import INTEGER_OVERFLOW, UNSIGNED_OVERFLOW, int64, uint64
from weir.cel.library.times import timestamp
from weir.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    Type,
)
from weir.cel.values import Duration, Timestamp, TypeValue, UInt, Value, type_of
from weir.cel.work import spend
from weir.values.duration import DurationError, format_duration, parse_duration
from weir.values.floats import FloatError, format_float, parse_float
from weir.values.timestamp import NANOSECONDS, TimestampError, format_timestamp, parse_zoned

_SIGNED: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_UNSIGNED: Final = re.compile(r"[0-9]+\Z", re.ASCII)
#: Longer digits are out of range whatever they say; int() is quadratic in them.
_MOST_DIGITS: Final = 20
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def _cannot(to: Type) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{to.name}'")


def _digits(text: str) -> str:
    return text.lstrip("+-").lstrip("0")


def int_of_string(text: str) -> int:
    """Return the int a decimal text means."""
    spend(len(text) >> 2)
    if _SIGNED.match(text) and len(digits := _digits(text)) < _MOST_DIGITS:
        number = int(digits or "0") * (
            -1 if text[0] == "-" else 1
        )  # int() refuses thousands of leading zeros
        if -(2**63) <= number < 2**63:
            return number
    raise _cannot(INT)


def uint_of_string(text: str) -> UInt:
    """Return the uint an unsigned decimal text means."""
    spend(len(text) >> 2)
    if _UNSIGNED.match(text) and len(digits := _digits(text)) <= _MOST_DIGITS:
        number = int(digits or "0")
        if number < 2**64:
            return UInt(number)
    raise _cannot(UINT)


def double_of_string(text: str) -> float:
    """Return the double a text means, by Go's rules."""
    spend(len(text) * 2)
    try:
        return parse_float(text)
    except FloatError:
        raise _cannot(DOUBLE) from None


def bool_of_string(text: str) -> bool:
    """Return the bool a text means."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _cannot(BOOL)


def duration_of_string(text: str) -> Duration:
    """Return the duration a text in Go's syntax means."""
    spend(len(text) * 10)
    try:
        return Duration(parse_duration(text))
    except DurationError:
        raise _cannot(DURATION) from None


def timestamp_of_string(text: str) -> Timestamp:
    """Return the instant an RFC 3339 text means."""
    spend(len(text) >> 1)
    try:
        ns, offset = parse_zoned(text)
    except TimestampError:
        raise _cannot(TIMESTAMP) from None
    return timestamp(ns, offset)


def int_of_double(number: float) -> int:
    """Return a double without its fraction."""
    if -(2.0**63) < number < 2.0**63:
        return int(number)
    raise EvaluationError(INTEGER_OVERFLOW)


def uint_of_double(number: float) -> UInt:
    """Return a double that is not negative without its fraction."""
    if 0 <= number < 2.0**64:
        return UInt(int(number))
    raise EvaluationError(UNSIGNED_OVERFLOW)


def string_of_bytes(octets: bytes) -> str:
    """Return the text that strict UTF-8 octets encode."""
    spend(len(octets) >> 4)
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def bytes_of_string(text: str) -> bytes:
    """Return the UTF-8 octets of *text*."""
    spend(len(text) >> 4)
    return text.encode()


def string_of_bool(value: bool) -> str:
    """Return `true` or `false`."""
    return "true" if value else "false"


def type_value(value: Value) -> TypeValue:
    """Return the run-time type of *value* as a value."""
    return TypeValue(type_of(value).name)


def _same(value: Value) -> Value:
    return value


def _from(
    name: str, id: str, source: Type, result: Type, impl: Callable[..., Value], *, fails: bool = False
) -> Row:
    return plain(name, id, (source,), result, impl, fails=fails)


FUNCTIONS: Final = functions(
    _from("bool", "bool_to_bool", BOOL, BOOL, _same),
    _from("bool", "string_to_bool", STRING, BOOL, bool_of_string, fails=True),
    _from("bytes", "bytes_to_bytes", BYTES, BYTES, _same),
    plain("bytes", "string_to_bytes", (STRING,), BYTES, bytes_of_string, costs.STRING_TO_BYTES),
    _from("double", "double_to_double", DOUBLE, DOUBLE, _same),
    _from("double", "int64_to_double", INT, DOUBLE, float),
    _from("double", "string_to_double", STRING, DOUBLE, double_of_string, fails=True),
    _from("double", "uint64_to_double", UINT, DOUBLE, float),
    _from("duration", "duration_to_duration", DURATION, DURATION, _same),
    _from("duration", "string_to_duration", STRING, DURATION, duration_of_string, fails=True),
    _from("int", "int64_to_int64", INT, INT, _same),
    _from("int", "double_to_int64", DOUBLE, INT, int_of_double, fails=True),
    _from("int", "duration_to_int64", DURATION, INT, lambda span: span.ns),
    _from("int", "string_to_int64", STRING, INT, int_of_string, fails=True),
    _from("int", "timestamp_to_int64", TIMESTAMP, INT, lambda at: at.ns // NANOSECONDS),
    _from("int", "uint64_to_int64", UINT, INT, lambda number: int64(int(number)), fails=True),
    _from("string", "string_to_string", STRING, STRING, _same),
    _from("string", "bool_to_string", BOOL, STRING, string_of_bool),
    plain("string", "bytes_to_string", (BYTES,), STRING, string_of_bytes, costs.BYTES_TO_STRING, fails=True),
    _from("string", "double_to_string", DOUBLE, STRING, format_float),
    _from("string", "duration_to_string", DURATION, STRING, lambda span: format_duration(span.ns)),
    _from("string", "int64_to_string", INT, STRING, str),
    _from("string", "timestamp_to_string", TIMESTAMP, STRING, lambda at: format_timestamp(at.ns, at.offset)),
    _from("string", "uint64_to_string", UINT, STRING, lambda number: str(int(number))),
    _from("timestamp", "timestamp_to_timestamp", TIMESTAMP, TIMESTAMP, _same),
    _from("timestamp", "int64_to_timestamp", INT, TIMESTAMP, lambda seconds: timestamp(seconds * NANOSECONDS),
          fails=True),
    _from("timestamp", "string_to_timestamp", STRING, TIMESTAMP, timestamp_of_string, fails=True),
    _from("uint", "uint64_to_uint64", UINT, UINT, _same),
    _from("uint", "double_to_uint64", DOUBLE, UINT, uint_of_double, fails=True),
    _from("uint", "int64_to_uint64", INT, UINT, uint64, fails=True),
    _from("uint", "string_to_uint64", STRING, UINT, uint_of_string, fails=True),
    _from("dyn", "to_dyn", A, DYN, _same),
    _from("type", "type", A, types.type_of_type(A), type_value),
    fold=True,
)  # fmt: skip
