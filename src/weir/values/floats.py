"""Go's parsing and printing of doubles.

Spec: cel.md 3.4 (`double(string)`, `string(double)`). Go accepts hexadecimal floats, `_` between digits and any case
of `inf`; text beyond the double range is an error, not infinity. Numbers print with an exponent from 10^6 on (and
below 10^-4), so 1234567.0 becomes `1.234567e+06`.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

_SPECIAL: Final = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z", re.ASCII)
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+\Z", re.ASCII
)
#: `_` may stand between two digits, and after the base prefix.
_UNDERSCORE: Final = re.compile(r"(?<=[0-9a-fA-FxX])_(?=[0-9a-fA-F])", re.ASCII)
_UNDERSCORE_DECIMAL: Final = re.compile(r"(?<=[0-9])_(?=[0-9])", re.ASCII)

#: From this power of ten on, numbers are printed with an exponent.
_EXPONENT_FROM: Final = 6


class FloatError(ValueError):
    """The text is not a double, or is beyond its range."""


def parse_float(text: str) -> float:
    """Return the double *text* means, by the rules of Go's parser.

    >>> parse_float("1e3"), parse_float("0x1p4"), parse_float("-Infinity"), parse_float("1_000.5")
    (1000.0, 16.0, -inf, 1000.5)
    """
    unsigned = text.lstrip("+-") if text[:1] in ("+", "-") else text
    if len(text) - len(unsigned) <= 1 and (special := _SPECIAL.get(unsigned.lower())) is not None:
        if special != special and unsigned != text:
            raise FloatError(f"not a number: {text!r}")  # Go knows no signed NaN
        return -special if text[0] == "-" else special
    hexadecimal = unsigned[:2] in ("0x", "0X")
    plain = text
    if "_" in text:
        plain = (_UNDERSCORE if hexadecimal else _UNDERSCORE_DECIMAL).sub("", text)
    if hexadecimal and _HEXADECIMAL.match(plain):
        try:
            return float.fromhex(plain)
        except OverflowError:
            raise FloatError(f"value out of range: {text!r}") from None
    if not hexadecimal and _DECIMAL.match(plain):
        number = float(plain)
        if math.isinf(number):
            raise FloatError(f"value out of range: {text!r}")
        return number
    raise FloatError(f"not a number: {text!r}")


def format_float(number: float) -> str:
    """Return the shortest text that reads back as *number*, in Go's `%g` form.

    >>> [format_float(n) for n in (1.0, 1e21, 123456789.0, 0.00001, -0.0, float("inf"))]
    ['1', '1e+21', '1.23456789e+08', '1e-05', '-0', '+Inf']
    """
    if number != number:
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(digits) - 1 + exponent
    if -4 <= power < _EXPONENT_FROM:
        return format_fixed(number)
    mantissa = str(digits[0]) + ("." + "".join(map(str, digits[1:])) if len(digits) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def format_fixed(number: float) -> str:
    """Return the shortest text without an exponent that reads back as *number*.

    >>> format_fixed(5400.0), format_fixed(1e21), format_fixed(0.1)
    ('5400', '1000000000000000000000', '0.1')
    """
    text = format(Decimal(repr(number)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text
