"""Signed 64-bit integers: the canonical form of tolerations, and Go's parser.

Spec: KEP-5471 "API Validation": a canonical signed 64-bit decimal. Tolerations must be canonical, so that a number
has one spelling; node-affinity `Gt`/`Lt` accept any spelling Go's parser accepts. Unlike Python's int(), nothing here
accepts blanks, `_` or Unicode digits.
"""

from __future__ import annotations

import re
from typing import Final

from weir.values.quoting import quote

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
UINT64_MAX: Final = 2**64 - 1

_CANONICAL: Final = re.compile(r"(?:0|-?[1-9][0-9]*)\Z", re.ASCII)
_PARSABLE: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)

#: No int64 has more digits; longer text is out of range without being converted (int() is quadratic).
_MOST_DIGITS: Final = 19


class IntegerError(ValueError):
    """The text is not a usable integer; the message is the API server's."""


def canonical_problem(text: str) -> str:
    """Return why *text* is not a canonical decimal integer, or "" when it is.

    >>> canonical_problem("0950")
    'must be a valid decimal integer in canonical form'
    """
    if not text:
        return "must be non-empty"
    return "" if _CANONICAL.match(text) else "must be a valid decimal integer in canonical form"


def parse_int64(text: str) -> int:
    """Return the int64 *text* spells, by the rules of Go's parser: sign and leading zeros are fine.

    >>> parse_int64("+007")
    7
    """
    if not _PARSABLE.match(text):
        raise IntegerError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) <= _MOST_DIGITS:
        number = int(digits or "0") * (-1 if text[0] == "-" else 1)
        if INT64_MIN <= number <= INT64_MAX:
            return number
    raise IntegerError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")


def parse_uint64(text: str) -> int:
    """Return the unsigned 64-bit number *text* spells, by the rules of Go's parser: no sign, leading zeros are fine.

    >>> parse_uint64("007")
    7
    >>> parse_uint64("-1")
    Traceback (most recent call last):
    weir.values.integer.IntegerError: strconv.ParseUint: parsing "-1": invalid syntax
    """
    if not (text.isascii() and text.isdigit()):
        raise IntegerError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("0")
    if len(digits) <= _MOST_DIGITS + 1 and (number := int(digits or "0")) <= UINT64_MAX:
        return number
    raise IntegerError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")


def parse_integer(text: str) -> int:
    """Return the canonical int64 that *text* spells; the form tolerations and their taints must have.

    >>> parse_integer("-5")
    -5
    >>> parse_integer("05")
    Traceback (most recent call last):
    weir.values.integer.IntegerError: must be a valid decimal integer in canonical form
    """
    if problem := canonical_problem(text):
        raise IntegerError(problem)
    return parse_int64(text)
