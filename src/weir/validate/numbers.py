"""Validation of numbers: counts, percentages of at most 100% and ports."""

from __future__ import annotations

import re
from typing import Any, Final

from weir.fields import field
from weir.fields.field import Document, Errors
from weir.values.names import check_port_name

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
PORT_RANGE: Final = "must be between 1 and 65535, inclusive"
_match_percent = re.compile(r"[0-9]+%").fullmatch
PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def validate_int_or_percent(value: Any, at: str) -> Errors:
    """Yield what is wrong with a count that may be a percentage."""
    if isinstance(value, str):
        if not _match_percent(value):
            yield field.invalid(at, value, PERCENT)
    elif value < 0:
        yield field.invalid(at, value, NOT_NEGATIVE)


def number_of(value: Any) -> int:
    """Return the number, of a percentage that before its sign; 0 of what is neither."""
    if isinstance(value, str):
        return int(value[:-1][:20]) if _match_percent(value) else 0
    return int(value or 0)


def validate_at_most_all(value: Any, at: str) -> Errors:
    """Yield that a percentage is more than everything."""
    if isinstance(value, str) and _match_percent(value) and number_of(value) > 100:
        yield field.invalid(at, value, "must not be greater than 100%")


def validate_not_negative(document: Document, names: tuple[str, ...], at: str) -> Errors:
    """Yield the numbers that are below zero."""
    for name in names:
        value: Any = document.get(name)
        if value is not None and value < 0:
            yield field.invalid(f"{at}.{name}", value, NOT_NEGATIVE)


def validate_port_reference(port: Any, at: str) -> Errors:
    """Yield what is wrong with a port given by number or by name."""
    if isinstance(port, str):
        yield from field.each_invalid(at, port, check_port_name(port))
    elif not 1 <= (port or 0) <= 65535:
        yield field.invalid(at, port or 0, PORT_RANGE)
