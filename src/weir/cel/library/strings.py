"""The string extension: `charAt`, `split`, `substring`, `trim` and their kin.

Spec: cel.md 10.1 (version 2 of the extension: no `reverse`). Positions are code points. An offset at
or behind the end finds nothing instead of failing, an empty needle is found everywhere, `replace('', x)`
puts x around every character.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weir.cel import costs
from weir.cel.env import Library
from weir.cel.errors import EvaluationError
from weir.cel.library.declare import functions, method, plain
from weir.cel.types import INT, STRING, list_of
from weir.cel.values import type_of
from weir.cel.work import MOST_ELEMENTS, grow, search, spend

_STRINGS: Final = list_of(STRING)
#: Unicode's white space; Python's strip() would also take U+001C to U+001F.
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
#: Escapes of a CEL literal; the backslash first, because the others bring new ones.
_ESCAPES: Final = (
    ("\\", "\\\\"), ("\a", "\\a"), ("\b", "\\b"), ("\f", "\\f"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"),
    ("\v", "\\v"), ('"', '\\"'),
)  # fmt: skip


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    """Return the character at *index*, "" at the very end."""
    if 0 <= index <= len(text):
        return text[index : index + 1]
    raise _out_of_range(index)


def index_of(text: str, part: str, offset: int = 0) -> int:
    """Return where *part* starts first at or behind *offset*, or -1."""
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    search(len(text), len(part))
    return text.find(part, offset)


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    """Return where *part* starts last at or before *offset*, or -1."""
    if offset is None:
        offset = len(text) - 1 if part else len(text)
    elif offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    if offset >= len(text):
        return -1
    search(len(text), len(part))
    spend((len(text) + len(part)) >> 4)
    # str.rfind takes len(text)·len(part) steps at worst; str.find, of both reversed, takes their sum.
    end = min(offset + len(part), len(text))
    position = text[:end][::-1].find(part[::-1])
    return position if position < 0 else end - position - len(part)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """Return *text* with at most *limit* (negative: all) of *old* replaced by *new*."""
    search(len(text), len(old))
    spend((len(text) + len(old)) >> 2)
    if len(new) > len(old):
        count = text.count(old) if limit < 0 else min(text.count(old), limit)
        length = len(text) + count * (len(new) - len(old))
        grow(length)
        spend(length >> 5)
    return text.replace(old, new, limit if limit >= 0 else -1)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """Return the parts of *text*, at most *limit* (negative: all); between all characters for ""."""
    if limit == 0:
        return []
    # A part takes as long as eight characters to search through, and there are no more parts than characters.
    search(len(text), len(separator))
    parts = text.count(separator) + 1
    parts = parts if limit < 0 else min(parts, limit)
    grow(parts, MOST_ELEMENTS)
    spend(parts >> 1)
    if not separator:
        return list(text) if limit < 0 or limit >= len(text) else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def join(parts: Sequence[str], separator: str = "") -> str:
    """Return *parts* in one string with *separator* between them."""
    spend(len(parts))
    for part in parts:
        if part.__class__ is not str:  # a list from dyn
            raise EvaluationError(f"unsupported type conversion from '{type_of(part).name}' to string")
    length = sum(map(len, parts)) + len(separator) * len(parts)
    grow(length)
    spend(length >> 5)
    return separator.join(parts)


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the characters from *start* up to *end*."""
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start,) if end is None else (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    spend((len(text) if end is None else end) - start >> 6)
    return text[start:end]


def quote(text: str) -> str:
    """Return *text* as a CEL string literal in double quotes."""
    spend(len(text) >> 2)
    for char, escape in _ESCAPES:
        if char in text:
            text = text.replace(char, escape)
    grow(len(text))
    return f'"{text}"'


def lower_ascii(text: str) -> str:
    """Return *text* with A-Z in lower case."""
    spend(len(text) >> 4)
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def upper_ascii(text: str) -> str:
    """Return *text* with a-z in upper case."""
    spend(len(text) >> 4)
    if text.isascii():
        return text.upper()
    return text.encode("utf-8", "surrogatepass").upper().decode("utf-8", "surrogatepass")


def trim(text: str) -> str:
    """Return *text* without white space at its ends."""
    spend(len(text) >> 3)
    return text.strip(_SPACE)


LIBRARY: Final = Library(
    "strings",
    functions(
        method("charAt", "string_char_at_int", (STRING, INT), STRING, char_at, fails=True),
        method("indexOf", "string_index_of_string", (STRING, STRING), INT, index_of, costs.SCAN),
        method("indexOf", "string_index_of_string_int", (STRING, STRING, INT), INT, index_of, costs.SCAN, fails=True),
        method("lastIndexOf", "string_last_index_of_string", (STRING, STRING), INT, last_index_of, costs.SCAN),
        method("lastIndexOf", "string_last_index_of_string_int", (STRING, STRING, INT), INT, last_index_of,
               costs.SCAN, fails=True),
        method("lowerAscii", "string_lower_ascii", (STRING,), STRING, lower_ascii, costs.REWRITE),
        method("replace", "string_replace_string_string", (STRING, STRING, STRING), STRING, replace, costs.REPLACE),
        method("replace", "string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, replace,
               costs.REPLACE),
        method("split", "string_split_string", (STRING, STRING), _STRINGS, split, costs.SPLIT),
        method("split", "string_split_string_int", (STRING, STRING, INT), _STRINGS, split, costs.SPLIT),
        method("substring", "string_substring_int", (STRING, INT), STRING, substring, costs.REWRITE, fails=True),
        method("substring", "string_substring_int_int", (STRING, INT, INT), STRING, substring, costs.REWRITE,
               fails=True),
        method("trim", "string_trim", (STRING,), STRING, trim, costs.REWRITE),
        method("upperAscii", "string_upper_ascii", (STRING,), STRING, upper_ascii, costs.REWRITE),
        method("join", "list_join", (_STRINGS,), STRING, join, costs.JOIN, fails=True),
        method("join", "list_join_string", (_STRINGS, STRING), STRING, join, costs.JOIN, fails=True),
        plain("strings.quote", "strings_quote", (STRING,), STRING, quote, costs.QUOTE),
    ),
)  # fmt: skip
