"""Semantic versions: tolerant parsing and comparison.

Spec: KEP-5721 "Semantic Version Comparison", with the parsing rules of the library it names: *tolerant* parsing
strips blanks and one leading `v`, drops leading zeros and fills missing parts, then parses strictly. A distribution's
suffix is a prerelease, so `5.15.0-78-generic` is *below* `5.15.0`; build metadata is ignored, also for equality;
`2024.01.15` is a version.
"""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Final

from weir.caches import bounded
from weir.values.quoting import quote

#: White space as Go's strings.TrimSpace sees it; Python's strip() would also take U+001C to U+001F.
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)

_DIGITS: Final = re.compile(r"[0-9]*\Z", re.ASCII)
_PLAIN: Final = re.compile(r"(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]*\Z", re.ASCII)
_UINT64_MAX: Final = 2**64 - 1
_MOST_DIGITS: Final = 20

#: A prerelease identifier as it sorts: numbers before words, numbers by value, words by bytes.
Identifier = tuple[int, int, str]


class SemverError(ValueError):
    """The text is not a version; the message is the parser's own, as users know it."""


@total_ordering
class Version:
    """A semantic version; compares by precedence, so build metadata is ignored.

    >>> parse_tolerant("v1.32") > parse_tolerant("1.32.0-alpha.1")
    True
    """

    __slots__ = ("build", "key", "major", "minor", "patch", "prerelease")

    def __init__(
        self,
        major: int,
        minor: int,
        patch: int,
        prerelease: tuple[Identifier, ...] = (),
        build: tuple[str, ...] = (),
    ) -> None:
        self.major, self.minor, self.patch = major, minor, patch
        self.prerelease, self.build = prerelease, build
        # A release sorts after all its prereleases: the flag comes before the identifiers.
        self.key = (major, minor, patch, not prerelease, prerelease)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(word or str(number) for _, number, word in self.prerelease)
        return text + ("+" + ".".join(self.build) if self.build else "")

    def __repr__(self) -> str:
        return f"Version({str(self)!r})"


def parse_tolerant(text: str) -> Version:
    """Return the version *text* means, read as forgivingly as KEP-5721 asks.

    >>> str(parse_tolerant(" v1.02 "))
    '1.2.0'
    >>> parse_tolerant("1.2-rc1")
    Traceback (most recent call last):
    weir.values.semver.SemverError: Short version cannot contain PreRelease/Build meta data
    """
    version, problem = _tolerant(text)
    if version is None:
        raise SemverError(problem)
    return version


def find_tolerant(text: str) -> Version | None:
    """Return the version *text* means, or None when it is not one."""
    return _tolerant(text)[0]


@bounded(8192)
def _tolerant(text: str) -> tuple[Version | None, str]:
    stripped = text.strip(_SPACE).removeprefix("v")
    parts = [_without_leading_zeros(part) for part in stripped.split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            return None, "Short version cannot contain PreRelease/Build meta data"
        parts += ["0"] * (3 - len(parts))
    try:
        return parse_strict(".".join(parts)), ""
    except SemverError as error:
        return None, str(error)


def _without_leading_zeros(part: str) -> str:
    if len(part.encode("utf-8", "surrogatepass")) < 2:
        return part
    trimmed = part.lstrip("0")
    return trimmed if trimmed[:1].isascii() and trimmed[:1].isdigit() else "0" + trimmed


def parse_strict(text: str) -> Version:
    """Return the version *text* spells in full semantic-version form.

    >>> str(parse_strict("1.2.3-rc.1+b5"))
    '1.2.3-rc.1+b5'
    """
    if plain := _PLAIN.fullmatch(text):  # most versions are three numbers
        major, minor, patch = plain.groups()
        return Version(int(major), int(minor), int(patch))
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    # In this order: the first number that is wrong is the one the error names.
    numbers = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    last, dash, prerelease = rest.partition("-")
    return Version(
        *numbers,
        _number(last, "Patch"),
        tuple(map(_prerelease_identifier, prerelease.split("."))) if dash else (),
        tuple(map(_build_identifier, build.split("."))) if plus else (),
    )


def _number(text: str, which: str) -> int:
    if not _DIGITS.match(text):
        raise SemverError(f"Invalid character(s) found in {which.lower()} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise SemverError(f"{which} number must not contain leading zeroes {quote(text)}")
    return _uint64(text)


def _uint64(text: str) -> int:
    if not text:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > _MOST_DIGITS or (number := int(text)) > _UINT64_MAX:
        raise SemverError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return number


def _prerelease_identifier(text: str) -> Identifier:
    if not text:
        raise SemverError("Prerelease is empty")
    if _DIGITS.match(text):
        if len(text) > 1 and text[0] == "0":
            raise SemverError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return (0, _uint64(text), "")
    if not _IDENTIFIER.match(text):
        raise SemverError(f"Invalid character(s) found in prerelease {quote(text)}")
    return (1, 0, text)


def _build_identifier(text: str) -> str:
    if not text:
        raise SemverError("Build meta data is empty")
    if not _IDENTIFIER.match(text):
        raise SemverError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text
