"""Semantic versions: `semver(s)`, comparison and parts.

Spec: cel.md 10.5. Parsing is strict unless the second argument is true, and even then only a `v`,
leading zeros and missing parts are forgiven (blanks are not); build metadata never counts; `!=` has no price
of its own, so it is too complex; major, minor and patch wrap around beyond 2^63-1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Final

from weir.cel import costs, types
from weir.cel.env import Library
from weir.cel.errors import EvaluationError
from weir.cel.library.declare import Row, functions, method, plain
from weir.cel.types import BOOL, INT, STRING, Type
from weir.cel.work import spend
from weir.values.semver import SemverError, Version, parse_strict

SEMVER: Final = types.opaque("kubernetes.Semver")
#: Units of one character of a version that is longer than most; parts of one character are the worst.
_PER_CHARACTER: Final = 5
_SHORT: Final = 64


class Semver:
    """A version as a CEL value; equal when the precedence is equal."""

    __slots__ = ("version",)
    cel_type: ClassVar[Type] = SEMVER

    def __init__(self, version: Version) -> None:
        self.version: Final = version

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not Semver:
            return False
        _charge(self, other)
        return self.version.key == other.version.key

    def __hash__(self) -> int:
        return hash(self.version)

    def __str__(self) -> str:
        return str(self.version)

    def __repr__(self) -> str:
        return f"Semver({str(self.version)!r})"


def normalize(text: str) -> str:
    """Return *text* without a leading `v`, without leading zeros, filled up to three parts.

    >>> normalize("v01.2")
    '1.2.0'
    """
    parts = [_trim(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise SemverError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _trim(part: str) -> str:
    """Strip leading zeros, but keep one where no other digit follows."""
    if len(part) < 2:
        return part
    trimmed = part.lstrip("0")
    return trimmed if trimmed and trimmed[0] in "0123456789" else "0" + trimmed


@lru_cache(maxsize=8192)
def _parse(text: str, normalized: bool) -> Semver | str:
    """Return the version, or the message that says why there is none; both are worth remembering."""
    try:
        return Semver(parse_strict(normalize(text) if normalized else text))
    except SemverError as error:
        return str(error)


def _remembered(text: str, normalized: bool) -> Semver | str:
    """Return what *text* spells; only short texts are kept."""
    if len(text) <= _SHORT:
        return _parse(text, normalized)
    spend(len(text) * _PER_CHARACTER)
    return _parse.__wrapped__(text, normalized)


def parse(text: str, normalized: bool = False) -> Semver:
    """Return the version *text* spells, as an evaluation error when it spells none."""
    found = _remembered(text, normalized)
    if found.__class__ is Semver:
        return found
    raise EvaluationError(str(found))


def is_semver(text: str, normalized: bool = False) -> bool:
    """Return whether *text* spells a version."""
    return _remembered(text, normalized).__class__ is Semver


def _charge(a: Semver, b: Semver) -> None:
    """Charge for comparing the identifiers of two prereleases."""
    if (identifiers := len(a.version.prerelease)) > 4 and len(b.version.prerelease) > 4:
        spend(identifiers)


def _greater(a: Semver, b: Semver) -> bool:
    _charge(a, b)
    return a.version.key > b.version.key


def _less(a: Semver, b: Semver) -> bool:
    _charge(a, b)
    return a.version.key < b.version.key


def _compare(a: Semver, b: Semver) -> int:
    _charge(a, b)
    left, right = a.version.key, b.version.key
    return (left > right) - (left < right)


def _part(name: str, id: str, read: Callable[[Version], int]) -> Row:
    def part(of: Semver) -> int:
        number = read(of.version)
        return number if number < 2**63 else number - 2**64

    return method(name, id, (SEMVER,), INT, part, costs.NAMED_FLAT)


LIBRARY: Final = Library(
    "semver",
    functions(
        plain("semver", "string_to_semver", (STRING,), SEMVER, parse, costs.READ, fails=True),
        plain("semver", "string_bool_to_semver", (STRING, BOOL), SEMVER, parse, costs.READ, fails=True),
        plain("isSemver", "is_semver_string", (STRING,), BOOL, is_semver, costs.READ),
        plain("isSemver", "is_semver_string_bool", (STRING, BOOL), BOOL, is_semver, costs.READ),
        method("isGreaterThan", "semver_is_greater_than", (SEMVER, SEMVER), BOOL, _greater, costs.NAMED_FLAT),
        method("isLessThan", "semver_is_less_than", (SEMVER, SEMVER), BOOL, _less, costs.NAMED_FLAT),
        method("compareTo", "semver_compare_to", (SEMVER, SEMVER), INT, _compare, costs.NAMED_FLAT),
        _part("major", "semver_major", lambda version: version.major),
        _part("minor", "semver_minor", lambda version: version.minor),
        _part("patch", "semver_patch", lambda version: version.patch),
    ),
)
