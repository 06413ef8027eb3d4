"""How much RE2 does to compile a pattern, judged from its text.

RE2 looks from every copy of a character at all ways past the optional parts that follow it, up to the next part that
must match: `(?:a{0,1000}){16}` is 16,000 copies with 16,000 ways each. Copies times ways is what it takes, about; a
pattern that RE2 does not read is judged as well, and refused by RE2 itself.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\[pPx]\{[^}]*\}|\\[pP]?.?"  # quoted text and escapes
    r"|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]?"  # classes
    r"|\(\?P?<[^>]*>|\(\?[a-zA-Z-]*:|\(\?[a-zA-Z-]*\)|[()|]"  # groups, flags, alternatives
    r"|[*+?]\??|\{\d{1,9}(?:,\d{0,9})?\}\??|.",
    re.DOTALL,
)


class _Part(NamedTuple):
    """A part of a pattern: its copies of characters, the ways past its start, past its end and in its longest run."""

    copies: int
    start: int
    end: int
    longest: int
    may_be_empty: bool


_NOTHING: Final = _Part(0, 0, 0, 0, True)
_CHARACTER: Final = _Part(1, 0, 0, 0, False)


def compile_steps(pattern: str) -> int:
    """Return how many steps RE2 takes for the optional parts of *pattern*, about.

    >>> compile_steps("a{0,1000}"), compile_steps("(a{0,5}b){1000}"), compile_steps("^zone-[a-z]+$")
    (1000000, 30000, 7)
    """
    # what is before the last part, the last part, and the alternatives before both
    row, last, other = _NOTHING, _NOTHING, None
    groups: list[tuple[_Part, _Part | None]] = []
    for token in _TOKEN.findall(pattern):
        kind = token[0]
        if kind == "(" and token[-1] != ")":
            groups.append((_then(row, last), other))
            row, last, other = _NOTHING, _NOTHING, None
        elif kind == ")" and groups:
            inner = _or(other, _then(row, last))
            (row, other), last = groups.pop(), inner
        elif kind == "|":
            row, last, other = _NOTHING, _NOTHING, _or(other, _then(row, last))
        elif kind in "*+?" or (kind == "{" and len(token) > 1):
            last = _repeated(last, *_counts(token))
        elif kind not in "()^$":
            row, last = _then(row, last), _CHARACTER
    whole = _or(other, _then(row, last))
    while groups:
        row, other = groups.pop()
        whole = _or(other, _then(row, whole))
    return whole.copies * max(whole.longest, 1)


def _counts(token: str) -> tuple[int, int | None]:
    if token[0] != "{":
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token[0]]
    least, comma, most = token.rstrip("?").strip("{}").partition(",")
    return int(least), int(most) if most else None if comma else int(least)


def _then(one: _Part, two: _Part) -> _Part:
    return _Part(
        one.copies + two.copies,
        one.start + two.start if one.may_be_empty else one.start,
        one.end + two.end if two.may_be_empty else two.end,
        max(one.longest, two.longest, one.end + two.start),
        one.may_be_empty and two.may_be_empty,
    )


def _or(one: _Part | None, two: _Part) -> _Part:
    if one is None:
        return two
    ways = max(one.start + two.start, one.end + two.end) + 1
    return _Part(
        one.copies + two.copies,
        ways,
        ways,
        max(one.longest, two.longest, ways),
        one.may_be_empty or two.may_be_empty,
    )


def _repeated(part: _Part, least: int, most: int | None) -> _Part:
    copies = least + 1 if most is None else most
    optional = max(copies - least, 0)
    within = part.start * copies if part.may_be_empty else part.end + part.start
    start = (within if part.may_be_empty else part.start) + optional
    end = (within if part.may_be_empty else part.end) + optional
    return _Part(
        part.copies * copies,
        start,
        end,
        max(part.longest, within + optional),
        part.may_be_empty or not least,
    )
