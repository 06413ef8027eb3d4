"""`'%s is %d'.format([a, b])`: clauses, what each accepts, and how it prints.

Spec: cel.md 10.2 (version 1 of the extension's formatter). A literal call is checked at compile time by the same
walk that formats at run time. `%f` groups thousands, `%e` prints `1.500000×10⁰⁰` and takes
its precision for a width, infinity is `∞`; inside lists doubles have six decimals and strings are quoted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from weir.cel import ast, costs
from weir.cel.env import Library
from weir.cel.errors import EvaluationError
from weir.cel.library.conversions import string_of_bool
from weir.cel.library.declare import functions, method
from weir.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    INT,
    LIST_OF_DYN,
    MAP_OF_DYN,
    NULL,
    STRING,
    UINT,
    Kind,
    Node,
    Type,
)
from weir.cel.values import Duration, Timestamp, TypeValue, Value, type_of
from weir.cel.work import grow, spend
from weir.values.duration import format_duration
from weir.values.floats import format_float
from weir.values.quoting import quote
from weir.values.timestamp import format_timestamp

_PRECISION: Final = 6
#: Units of one clause, of one element printed inside a list or map, of a double with all its digits, and of
#: one character that is quoted.
_PER_CLAUSE: Final = 15
_PER_ELEMENT: Final = 12
_PER_DOUBLE: Final = 60
_PER_QUOTED: Final = 2
#: Upstream keeps the number of decimals in one byte.
_PRECISION_RANGE: Final = 256
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SUPERSCRIPT: Final = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")

_ACCEPTS: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
_ACCEPTS["X"] = _ACCEPTS["x"]
#: Static kinds a clause takes; a string may turn out to be `NaN` or `Infinity`.
_KINDS: Final = {
    "s": frozenset(
        {
            Kind.LIST,
            Kind.MAP,
            Kind.INT,
            Kind.UINT,
            Kind.DOUBLE,
            Kind.BOOL,
            Kind.STRING,
            Kind.TIMESTAMP,
            Kind.BYTES,
            Kind.DURATION,
            Kind.TYPE,
            Kind.NULL,
        }
    ),
    "d": frozenset({Kind.INT, Kind.UINT}),
    "f": frozenset({Kind.DOUBLE, Kind.STRING}),
    "e": frozenset({Kind.DOUBLE, Kind.STRING}),
    "b": frozenset({Kind.INT, Kind.UINT, Kind.BOOL}),
    "x": frozenset({Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES}),
    "o": frozenset({Kind.INT, Kind.UINT}),
}
_KINDS["X"] = _KINDS["x"]


class _Unfit(Exception):
    """A value a clause does not take, with the words that follow `error during formatting: `."""


class _Broken(Exception):
    """A template that cannot be read, with the message."""


# -- reading the template -----------------------------------------------------------------------------------


def _walk(template: str, count: int, clause: Callable[[int, str, int | None], str], *, early: bool) -> str:
    """Return the formatted text; *clause* gives the text of one clause for argument, letter and precision.

    `early`: at compile time a template that ends in `%` is reported before a missing argument, at run
    time after it.
    """
    out: list[str] = []
    position = used = length = 0
    spend(len(template) >> 4)
    while (percent := template.find("%", position)) >= 0:
        spend(_PER_CLAUSE)
        out.append(template[position:percent])
        position = percent + 1
        if template[position : position + 1] == "%":
            out.append("%")
            position += 1
            continue
        if not early and used >= count:
            raise _Broken(f"index {used} out of range")
        if position >= len(template):
            raise _Broken("unexpected end of string")
        if used >= count:
            raise _Broken(f"index {used} out of range")
        precision, position = _read_precision(template, position)
        letter = template[position]
        if letter not in _ACCEPTS:
            first = chr(letter.encode()[0])  # upstream looks at bytes, not characters
            raise _Broken(f'could not parse formatting clause: unrecognized formatting clause "{first}"')
        text = clause(used, letter, precision)
        length += len(text)
        grow(length)  # before they are all put together
        spend(len(text) >> 5)
        out.append(text)
        position, used = position + 1, used + 1
    out.append(template[position:])
    if early and count > used:
        problem = f"too many arguments supplied to string.format (expected {used}, got {count})"
        raise _Broken(problem)
    return "".join(out)


def _read_precision(template: str, position: int) -> tuple[int | None, int]:
    if template[position] != ".":
        return None, position
    end = position + 1
    while end < len(template) and template[end] in "0123456789":
        end += 1
        if not end & 1023:
            spend(2048)
    if end >= len(template):
        raise _Broken(_PRECISION_WRONG + "could not find end of precision specifier")
    digits = template[position + 1 : end]
    spend(2 * len(digits))
    if not digits or len(digits.lstrip("0")) > 18:
        reason = "invalid syntax" if not digits else "value out of range"
        problem = (
            f"error while converting precision to integer: strconv.Atoi: parsing {quote(digits)}: {reason}"
        )
        raise _Broken(_PRECISION_WRONG + problem)
    return int(digits), end


_PRECISION_WRONG: Final = "could not parse formatting clause: error while parsing precision: "


# -- at compile time ----------------------------------------------------------------------------------------


def check_format(template: str, arguments: Sequence[Node]) -> tuple[Node | None, str] | None:
    """Return what is wrong with a literal call: the node to blame (None: the call) and the message, or None."""
    blamed: list[Node] = []

    def check(index: int, letter: str, precision: int | None) -> str:
        bad = _unfit_node(letter, arguments[index])
        if bad is not None:
            blamed.append(bad)
            raise _Unfit(_ACCEPTS[letter].format(_type_name(bad.type)))
        return ""

    try:
        _walk(template, len(arguments), check, early=True)
    except _Unfit as error:
        return blamed[0], f"error during formatting: {error}"
    except _Broken as error:
        return None, str(error)
    return None


def _unfit_node(letter: str, node: Node) -> Node | None:
    """Return the node a clause does not take: the argument or, for `%s`, something inside a literal."""
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type.kind is not Kind.DYN and current.type.kind not in _KINDS[letter]:
            return current
        if letter == "s" and isinstance(current, ast.ListExpr | ast.MapExpr):
            stack.extend(reversed(list(ast.children(current))))
    return None


def _type_name(of: Type) -> str:
    return "google.protobuf.Any" if of.kind is Kind.ANY else of.name


# -- at run time --------------------------------------------------------------------------------------------


def format_string(template: str, arguments: Sequence[Value]) -> str:
    """Return *template* with its clauses replaced by the formatted *arguments*."""

    def print_clause(index: int, letter: str, precision: int | None) -> str:
        return _print(letter, arguments[index], precision)

    try:
        text = _walk(template, len(arguments), print_clause, early=False)
    except _Unfit as error:
        raise EvaluationError(f"error during formatting: {error}") from None
    except _Broken as error:
        raise EvaluationError(str(error)) from None
    grow(len(text))
    return text


def _print(letter: str, value: Value, precision: int | None) -> str:
    kind = type_of(value)
    if letter == "s":
        return _string(value)
    if letter in "fe":
        if kind is STRING and value in _SPECIAL:
            value, kind = _SPECIAL[value], DOUBLE
        if kind is DOUBLE:
            spend(_PER_DOUBLE)
            chosen = _PRECISION if precision is None else precision
            return _fixed(value, chosen) if letter == "f" else _scientific(value, chosen)
    elif kind is INT or kind is UINT:
        return format(int(value), letter)
    elif letter == "b" and kind is BOOL:
        return "1" if value else "0"
    elif letter in "xX" and (kind is STRING or kind is BYTES):
        spend(len(value) >> 3)
        grow(2 * len(value))
        digits = str((value.encode() if kind is STRING else value).hex())
        return digits.upper() if letter == "X" else digits
    raise _Unfit(_ACCEPTS[letter].format(kind.name))


def _string(value: Value) -> str:
    """Return *value* as `%s` prints it at the top."""
    kind = type_of(value)
    if kind is STRING:
        return str(value)
    if kind is BYTES:
        spend(len(value) >> 4)
        return _text_of_bytes(value)
    if kind is DOUBLE:
        return format_float(value)
    if isinstance(value, Duration):
        return format_duration(value.ns)
    if isinstance(value, Timestamp):
        return format_timestamp(value.ns, value.offset)
    return _plain(value, kind, _ACCEPTS["s"])


def _plain(value: Value, kind: Type, refusal: str) -> str:
    """Return what prints the same at the top and inside a list or map."""
    if kind is INT or kind is UINT:
        return str(int(value))
    if kind is BOOL:
        return string_of_bool(value)
    if kind is NULL:
        return "null"
    if isinstance(value, TypeValue):
        return value.name
    if kind is LIST_OF_DYN:
        spend(len(value) * _PER_ELEMENT)
        return _joined("[", map(_nested, value), "]")
    if kind is MAP_OF_DYN:
        spend(len(value) * 3 * _PER_ELEMENT)
        entries = sorted(((_key(key), _nested(item)) for key, item in value.items()), key=lambda e: e[0])
        return _joined("{", (f"{key}:{item}" for key, item in entries), "}")
    raise _Unfit(refusal.format(kind.name))


def _joined(start: str, parts: Iterable[str], end: str) -> str:
    """Return a list or map of printed *parts*."""
    texts: list[str] = []
    length = 0
    for part in parts:
        texts.append(part)
        length += len(part) + 2
        grow(length)
    spend(length >> 5)
    return start + ", ".join(texts) + end


def _nested(value: Value) -> str:
    """Return *value* as a CEL literal, the way it stands inside a list or map."""
    kind = type_of(value)
    if kind is STRING:
        spend(len(value) * _PER_QUOTED)
        return quote(value)
    if kind is BYTES:
        spend(len(value) * _PER_QUOTED)
        return "b" + quote(_text_of_bytes(value))
    if kind is DOUBLE:
        return f"{value:.6f}" if math.isfinite(value) else quote(format_float(value))
    if isinstance(value, Duration):
        return f"duration({quote(format_duration(value.ns))})"
    if isinstance(value, Timestamp):
        return f"timestamp({quote(format_timestamp(value.ns, value.offset))})"
    return _plain(value, kind, "no formatting function for {}")


def _key(key: Value) -> str:
    kind = type_of(key)
    if kind not in (STRING, BOOL, INT, UINT):
        raise _Unfit(f"no formatting function for map key of type {kind.name}")
    return _nested(key)


def _text_of_bytes(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        reason = quote("invalid UTF-8 in bytes, cannot convert to string")
        raise _Unfit(f"could not convert argument {reason} to string") from None


def _fixed(number: float, precision: int) -> str:
    return _infinite(number) or f"{_unsigned_zero(number):,.{precision % _PRECISION_RANGE}f}"


def _scientific(number: float, width: int) -> str:
    grow(width)
    spend(width >> 5)
    text = _infinite(number)
    if not text:
        mantissa, exponent = f"{_unsigned_zero(number):.{_PRECISION}e}".split("e")
        sign, digits = ("-" if exponent[0] == "-" else ""), exponent[1:]
        text = f"{mantissa}×10{(sign + digits).translate(_SUPERSCRIPT)}"
    return text.rjust(width)


def _unsigned_zero(number: float) -> float:
    """Return *number*; zero has no sign here."""
    return number or 0.0


def _infinite(number: float) -> str:
    if math.isfinite(number):
        return ""
    return "NaN" if number != number else "∞" if number > 0 else "-∞"


LIBRARY: Final = Library(
    "formatting",
    functions(
        method("format", "string_format", (STRING, LIST_OF_DYN), STRING, format_string, costs.TRAVERSE_RECEIVER,
               fails=True),
    ),
    check_format=check_format,
)  # fmt: skip
