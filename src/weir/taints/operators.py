"""What does each toleration operator ask of the taint's value?

Spec: KEP-5471 "Semantics", KEP-5721 "Toleration Logic". The direction is always *taint OP toleration*:
`Gt 750` tolerates a taint whose value is above 750. All comparisons are strict. A value that cannot be read
does not match and is not an error.
Not here: keys, effects and expressions (weir.taints.toleration).
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from weir.gates import Gates
from weir.values.integer import IntegerError, parse_integer
from weir.values.semver import find_tolerant


class Outcome(enum.Enum):
    """How one toleration met one taint; each value is the phrase `weir explain` prints."""

    TOLERATED = "tolerates it"
    OTHER_EFFECT = "is for another effect"
    OTHER_KEY = "is for another key"
    OTHER_VALUE = "asks for another value"
    NOT_LESS = "asks for a lower value"
    NOT_GREATER = "asks for a higher value"
    NOT_AN_INTEGER = "compares integers, and the taint's value is not one"
    NOT_A_VERSION = "compares versions, and the taint's value is not one"
    TOLERATION_NOT_AN_INTEGER = "compares integers, and its own value is not one"
    TOLERATION_NOT_A_VERSION = "compares versions, and its own value is not one"
    EXPRESSION_FALSE = "has an expression that is false for it"
    EXPRESSION_FAILED = "has an expression that fails for it"
    UNKNOWN_OPERATOR = "uses an operator this version does not know"
    GATE_OFF = "uses a feature whose gate is off"

    def __bool__(self) -> bool:
        return self is Outcome.TOLERATED


#: What says that a value could not be read; no match, and worth a word to whoever set it.
UNREADABLE: Final = (
    Outcome.NOT_AN_INTEGER,
    Outcome.NOT_A_VERSION,
    Outcome.TOLERATION_NOT_AN_INTEGER,
    Outcome.TOLERATION_NOT_A_VERSION,
    Outcome.EXPRESSION_FAILED,
)
Compare = Callable[[str, str, Gates], Outcome]


def equal(asked: str, found: str, gates: Gates) -> Outcome:
    """Return whether both values are the same text."""
    return Outcome.TOLERATED if asked == found else Outcome.OTHER_VALUE


def exists(asked: str, found: str, gates: Gates) -> Outcome:
    """Return that the taint is tolerated, whatever its value."""
    return Outcome.TOLERATED


def unknown(asked: str, found: str, gates: Gates) -> Outcome:
    """Return that an operator of a newer version matches nothing."""
    return Outcome.UNKNOWN_OPERATOR


def _numeric(holds: Callable[[Any, Any], bool], otherwise: Outcome) -> Compare:
    def compare(asked: str, found: str, gates: Gates) -> Outcome:
        if not gates.numeric:
            return Outcome.GATE_OFF
        limit, value = _integer(asked), _integer(found)
        if limit is None:
            return Outcome.TOLERATION_NOT_AN_INTEGER
        if value is None:
            return Outcome.NOT_AN_INTEGER
        return Outcome.TOLERATED if holds(value, limit) else otherwise

    return compare


def _semver(holds: Callable[[Any, Any], bool], otherwise: Outcome) -> Compare:
    def compare(asked: str, found: str, gates: Gates) -> Outcome:
        if not gates.semver:
            return Outcome.GATE_OFF
        limit, value = find_tolerant(asked), find_tolerant(found)
        if limit is None:
            return Outcome.TOLERATION_NOT_A_VERSION
        if value is None:
            return Outcome.NOT_A_VERSION
        return Outcome.TOLERATED if holds(value, limit) else otherwise

    return compare


@lru_cache(maxsize=8192)
def _integer(text: str) -> int | None:
    try:
        return parse_integer(text)
    except IntegerError:
        return None


NUMERIC: Final[Mapping[str, Compare]] = {
    "Lt": _numeric(operator.lt, Outcome.NOT_LESS),
    "Gt": _numeric(operator.gt, Outcome.NOT_GREATER),
}
SEMVER: Final[Mapping[str, Compare]] = {
    "SemverLt": _semver(operator.lt, Outcome.NOT_LESS),
    "SemverGt": _semver(operator.gt, Outcome.NOT_GREATER),
    "SemverEq": _semver(operator.eq, Outcome.OTHER_VALUE),
}
#: Every toleration operator; the empty one behaves as Equal.
OPERATORS: Final[Mapping[str, Compare]] = {"": equal, "Equal": equal, "Exists": exists, **NUMERIC, **SEMVER}
