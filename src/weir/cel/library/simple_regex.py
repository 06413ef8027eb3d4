"""Translation of regular expressions that Python's own engine runs in linear time.

RE2 through its binding costs more than the rest of an evaluation; the usual patterns of taints
(`^zone-a[12]-rack-[0-9]+$`) are so plain that a backtracking engine has nothing to backtrack over. This module
proves that for a pattern and rewrites it; RE2 runs all others.

The proof. A translated pattern is a row of character sets with counts, no groups, no alternatives. (1) A set
with a variable count shares no character with anything that may come next, so how often it repeats is
decided by the text alone: the repeat is written possessively and the engine never returns to it. (2) With a
variable count the pattern starts at `^`, so there is one attempt, each character is looked at once per set:
linear. (3) Without variable counts every attempt ends within the fixed length of the pattern, at most
`_MOST_FIXED` characters. Equality with RE2 is tested on random patterns and texts.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$")
_DIGIT: Final = frozenset("0123456789")
_WORD: Final = _DIGIT | frozenset("_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SPACE: Final = frozenset("\t\n\f\r ")
_CLASSES: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_COUNT: Final = re.compile(r"\{(\d{1,3})(,(\d{0,3}))?\}")
_QUANTIFIERS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
#: Longest attempt of a pattern that may start anywhere.
_MOST_FIXED: Final = 64
#: Longest pattern that is translated: `re` keeps the last 512 it compiled, however large.
_LONGEST: Final = 512


class _Item(NamedTuple):
    """A set of characters and how often it repeats (most None: without end)."""

    characters: frozenset[str]
    least: int
    most: int | None

    @property
    def fixed(self) -> bool:
        return self.least == self.most


def translate(pattern: str) -> str | None:
    """Return a Python pattern that matches the same texts in linear time, or None.

    >>> translate("^zone-a[12]$")
    '\\\\A[z][o][n][e][\\\\-][a][12]\\\\Z'
    >>> translate("(a+)+$")
    """
    if len(pattern) > _LONGEST:
        return None
    anchored = pattern.startswith("^")
    body = pattern[1:] if anchored else pattern
    ends = body.endswith("$") and not body.endswith("\\$")
    items = _items(body[:-1] if ends else body)
    if items is None or not _decided(items):
        return None
    if not anchored and not (_all_fixed(items) and sum(item.least for item in items) <= _MOST_FIXED):
        return None
    return (r"\A" if anchored else "") + "".join(map(_write, items)) + (r"\Z" if ends else "")


def _items(body: str) -> list[_Item] | None:
    """Return the row of character sets that *body* is, or None when it is anything else."""
    items: list[_Item] = []
    position = 0
    while position < len(body):
        found = _set(body, position)
        if found is None:
            return None
        characters, position = found
        counts = _counts(body, position)
        if counts is None:
            return None
        least, most, position = counts
        items.append(_Item(characters, least, most))
    return items


def _set(body: str, position: int) -> tuple[frozenset[str], int] | None:
    char = body[position]
    if char == "[":
        return _class(body, position + 1)
    if char == "\\":
        escaped = _escape(body, position + 1)
        return None if escaped is None else (escaped, position + 2)
    return None if char in _SPECIAL else (frozenset(char), position + 1)


def _escape(body: str, position: int) -> frozenset[str] | None:
    char = body[position : position + 1]
    if char in _CLASSES:
        return _CLASSES[char]
    return frozenset(char) if char and char.isascii() and not char.isalnum() and char.isprintable() else None


def _class(body: str, position: int) -> tuple[frozenset[str], int] | None:
    """Read `[…]` with plain characters, ranges and escapes; negation and named classes are left to RE2."""
    end = position
    characters: set[str] = set()
    if body[position : position + 1] in ("^", "]", "-"):
        return None
    while end < len(body) and body[end] != "]":
        if body[end] == "\\":
            escaped = _escape(body, end + 1)
            if escaped is None or body[end + 2 : end + 3] == "-":
                return None
            characters |= escaped
            end += 2
            continue
        if body[end] == "[" or not body[end].isascii():
            return None
        if body[end + 1 : end + 2] == "-" and body[end + 2 : end + 3] != "]":
            last = body[end + 2 : end + 3]
            if not last or not last.isascii() or last in "\\[" or last < body[end]:
                return None
            characters |= set(map(chr, range(ord(body[end]), ord(last) + 1)))
            end += 3
            if body[end : end + 1] == "-" and body[end + 1 : end + 2] != "]":
                return None
            continue
        characters.add(body[end])
        end += 1
    return (frozenset(characters), end + 1) if end < len(body) and characters else None


def _counts(body: str, position: int) -> tuple[int, int | None, int] | None:
    """Return how often the set before *position* repeats and where the pattern goes on."""
    least, most = 1, 1  # type: tuple[int, int | None]
    char = body[position : position + 1]
    if char in _QUANTIFIERS:
        least, most = _QUANTIFIERS[char]
        position += 1
    elif char == "{":
        match = _COUNT.match(body, position)
        if match is None:
            return None
        least = int(match[1])
        most = least if match[2] is None else int(match[3]) if match[3] else None
        if most is not None and most < least:
            return None
        position = match.end()
    else:
        return 1, 1, position
    return None if body[position : position + 1] in ("*", "+", "?", "{") else (least, most, position)


def _all_fixed(items: list[_Item]) -> bool:
    return all(item.fixed for item in items)


def _decided(items: list[_Item]) -> bool:
    """Return whether no set with a variable count shares a character with what may follow it."""
    for index, item in enumerate(items):
        if item.fixed:
            continue
        for follower in items[index + 1 :]:
            if item.characters & follower.characters:
                return False
            if follower.least:
                break
    return True


def _write(item: _Item) -> str:
    inside = "".join(re.escape(char) for char in sorted(item.characters))
    if (item.least, item.most) == (1, 1):
        return f"[{inside}]"
    if item.fixed:
        return f"[{inside}]{{{item.least}}}"
    most = "" if item.most is None else item.most
    return f"[{inside}]{{{item.least},{most}}}+"
