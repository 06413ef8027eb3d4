"""Go durations (`1h30m`), parsed and printed in whole nanoseconds.

Spec: cel.md 3.4 (`duration(string)`, `string(duration)`). As in Go, a fraction is scaled in floating point and
truncated; `0` needs no unit; `5.s` and `.5s` are valid; there are no days.
"""

from __future__ import annotations

import re
from typing import Final

from weir.values.floats import format_fixed
from weir.values.quoting import quote

NANOSECONDS: Final = 1_000_000_000
_LIMIT: Final = 2**63

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
}
_TERM: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)", re.ASCII)

_NUMBER_AND_UNIT: Final = re.compile(r"([0-9]*\.?[0-9]*)([^0-9.]*)", re.ASCII)


class DurationError(ValueError):
    """The text is not a duration."""


def duration_problem(text: str) -> str:
    """Return what Go says of a text that is no duration; empty if it is one.

    >>> duration_problem("1h30m"), duration_problem("5"), duration_problem("5d")
    ('', 'time: missing unit in duration "5"', 'time: unknown unit "d" in duration "5d"')
    >>> duration_problem("soon")
    'time: invalid duration "soon"'
    """
    try:
        parse_duration(text)
    except DurationError:
        pass
    else:
        return ""
    shown = quote(text)
    rest = text[1:] if text[:1] in ("+", "-") else text
    for number, unit in _NUMBER_AND_UNIT.findall(rest):
        if not number.strip("."):
            break
        if not unit:
            return f"time: missing unit in duration {shown}"
        if unit not in _UNITS:
            return f"time: unknown unit {quote(unit)} in duration {shown}"
    return f"time: invalid duration {shown}"


def parse_duration(text: str) -> int:
    """Return the nanoseconds *text* means.

    >>> parse_duration("1h30m") == 90 * 60 * 10**9, parse_duration("-1.5s")
    (True, -1500000000)
    >>> parse_duration("1d")
    Traceback (most recent call last):
    weir.values.duration.DurationError: not a duration: '1d'
    """
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    total, position = 0, 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        unit = _UNITS.get(term[3]) if term else None
        if term is None or unit is None or not (term[1] or term[2]) or len(term[1].lstrip("0")) > 19:
            raise DurationError(f"not a duration: {text!r}")
        amount = int(term[1] or "0") * unit
        amount += _fraction(term[2] or "", unit)
        total += amount
        if total > _LIMIT:
            raise DurationError(f"duration out of range: {text!r}")
        position = term.end()
    negative = text[:1] == "-"
    if not rest or (total == _LIMIT and not negative):
        raise DurationError(f"not a duration: {text!r}")
    return -total if negative else total


def _fraction(digits: str, unit: int) -> int:
    """Return the nanoseconds of a fraction; digits that no longer fit 63 bits are dropped."""
    number, scale = 0, 1.0
    for digit in digits:
        longer = number * 10 + int(digit)
        if longer >= _LIMIT:
            break
        number, scale = longer, scale * 10
    return int(number * (unit / scale)) if number else 0


def format_duration(nanoseconds: int) -> str:
    """Return seconds with the shortest fraction and `s`, as CEL prints durations.

    >>> format_duration(90 * 10**9), format_duration(100_000_000), format_duration(-5400 * 10**9)
    ('90s', '0.1s', '-5400s')
    """
    sign = -1 if nanoseconds < 0 else 1
    seconds, rest = divmod(abs(nanoseconds), NANOSECONDS)
    return format_fixed(sign * (seconds + rest / 1e9)) + "s"
