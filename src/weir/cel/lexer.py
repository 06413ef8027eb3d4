"""Lexer: the tokens of an expression, and the values of number, string and bytes literals.

Spec: cel.md 2.2 "Tokens", 14.2 for the text of `token recognition error`. Maximal munch: where the longest form
fails (an open string, `1e`), the longest prefix that is a token counts, otherwise the characters up to
and including the one that did not fit are reported and skipped.

In strings `\\x` and octal escapes are code points, in bytes they are octets; `\\u` and `\\U` do not exist in bytes.
The functions that read a literal raise ValueError with the message of the issue.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from weir.cel.errors import Issue, Source
from weir.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

#: Kinds: the text itself for operators and keywords, else one of these names.
IDENTIFIER: Final = "IDENTIFIER"
ESC_IDENTIFIER: Final = "ESC_IDENTIFIER"
NUM_INT: Final = "NUM_INT"
NUM_UINT: Final = "NUM_UINT"
NUM_FLOAT: Final = "NUM_FLOAT"
STRING: Final = "STRING"
BYTES: Final = "BYTES"
EOF: Final = "<EOF>"
VALUES: Final = (NUM_INT, NUM_UINT, NUM_FLOAT, STRING, BYTES)
KEYWORDS: Final = frozenset(("true", "false", "null", "in"))


class Token(NamedTuple):
    """Kind, text and offset."""

    kind: str
    text: str
    pos: int


_ESCAPE = r"\\(?:[abfnrtv\\?\"'`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_STRING = (
    rf"(?:\"\"\"(?:[^\\]|{_ESCAPE})*?\"\"\""
    rf"|'''(?:[^\\]|{_ESCAPE})*?'''"
    rf"|\"(?:[^\\\"\n\r]|{_ESCAPE})*\""
    rf"|'(?:[^\\'\n\r]|{_ESCAPE})*'"
    r"|[rR]\"\"\"[\s\S]*?\"\"\"|[rR]'''[\s\S]*?'''"
    r"|[rR]\"[^\"\n\r]*\"|[rR]'[^'\n\r]*')"
)
_TOKEN: Final = re.compile(
    rf"(?P<SPACE>[ \t\r\n\f]+|//[^\n]*)"
    rf"|(?P<BYTES>[bB]{_STRING})"
    rf"|(?P<STRING>{_STRING})"
    r"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<IDENTIFIER>[_a-zA-Z][_a-zA-Z0-9]*)"
    r"|(?P<ESC_IDENTIFIER>`[a-zA-Z0-9_.\-/ ]+`)"
    r"|(?P<OPERATOR>==|!=|<=|>=|&&|\|\||[<>+\-*/%!?:.,()\[\]{}])"
)
_OPEN: Final = {
    '"': re.compile(rf"\"(?:[^\\\"\n\r]|{_ESCAPE})*"),
    "'": re.compile(rf"'(?:[^\\'\n\r]|{_ESCAPE})*"),
}
#: As much of an escape as can still become one; the character after it is the one that does not fit.
_PARTIAL_ESCAPE: Final = re.compile(
    r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?"
)
_OPEN_QUOTED_NAME: Final = re.compile(r"`[a-zA-Z0-9_.\-/ ]*")


def tokenize(source: Source) -> tuple[list[Token], list[Issue]]:
    """The tokens of *source*, ending with EOF, and what could not be read.

    >>> [t.text for t in tokenize(Source("a.b == 'x'"))[0]]
    ['a', '.', 'b', '==', "'x'", '<EOF>']
    """
    text = source.text
    tokens: list[Token] = []
    issues: list[Issue] = []
    position, end = 0, len(text)
    match_at = _TOKEN.match
    while position < end:
        found = match_at(text, position)
        if found is None:
            stop = _first_misfit(text, position)
            bad = text[position : stop + 1]
            issues.append(source.issue(position, f"Syntax error: token recognition error at: '{bad}'"))
            position = stop + 1
            continue
        kind = found.lastgroup or ""
        if kind != "SPACE":
            word = found.group()
            if kind == "OPERATOR" or (kind == "IDENTIFIER" and word in KEYWORDS):
                kind = word
            tokens.append(Token(kind, word, position))
        position = found.end()
    tokens.append(Token(EOF, EOF, end))
    return tokens, issues


def _first_misfit(text: str, position: int) -> int:
    """The offset of the first character that cannot continue any token starting at *position*."""
    first = text[position]
    if first in "=&|":
        return position + 1
    if first == "`":
        found = _OPEN_QUOTED_NAME.match(text, position)
        return found.end() if found else position + 1
    if first in _OPEN:
        found = _OPEN[first].match(text, position)
        stop = found.end() if found else position + 1
        if stop < len(text) and text[stop] == "\\":
            partial = _PARTIAL_ESCAPE.match(text, stop)
            stop = partial.end() if partial else stop + 1
        return stop
    return position


_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip
_LITERAL_ESCAPE: Final = re.compile(
    r"\\(?:([xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|([0-3][0-7]{2})|([abfnrtv\\?\"'`]))"
)


def parse_int(text: str) -> int:
    """The value of an int literal, with its sign."""
    value = int(text, 16) if "x" in text else _decimal(text, 20, "invalid int literal")
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def parse_uint(text: str) -> UInt:
    """The value of a uint literal.

    >>> parse_uint("0xffu")
    255u
    """
    digits = text[:-1]
    value = int(digits, 16) if "x" in digits else _decimal(digits, 20, "invalid uint literal")
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return UInt(value)


def _decimal(text: str, most: int, message: str) -> int:
    # Python refuses very long digit strings with a message of its own; they are out of range anyway.
    if len(text.lstrip("-0")) > most:
        raise ValueError(message)
    return int(text.lstrip("-").lstrip("0") or "0") * (-1 if text.startswith("-") else 1)


def parse_double(text: str) -> float:
    """The value of a double literal."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("invalid double literal")
    return value


def parse_string(text: str) -> str:
    """The value of a string literal, quotes and prefix included in *text*.

    >>> parse_string(r"'a\\u00e9'"), parse_string("r'\\\\d'")
    ('aé', '\\\\d')
    """
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _LITERAL_ESCAPE.sub(_code_point, body)


def parse_bytes(text: str) -> bytes:
    """The value of a bytes literal, `b` included in *text*."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    last = 0
    for found in _LITERAL_ESCAPE.finditer(body):
        parts.append(body[last : found.start()].encode("utf-8", "surrogatepass"))
        hexadecimal, octal, simple = found.groups()
        if hexadecimal:
            if hexadecimal[0] in "uU":
                raise ValueError("unable to unescape string")
            parts.append(bytes([int(hexadecimal[1:], 16)]))
        elif octal:
            parts.append(bytes([int(octal, 8)]))
        else:
            parts.append(_SIMPLE_ESCAPES[simple].encode())
        last = found.end()
    parts.append(body[last:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)


def _body(text: str) -> tuple[str, bool]:
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    body = text[quotes:-quotes]
    if "\r" in body:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    return body, raw


def _code_point(found: re.Match[str]) -> str:
    hexadecimal, octal, simple = found.groups()
    if simple:
        return _SIMPLE_ESCAPES[simple]
    code = int(hexadecimal[1:], 16) if hexadecimal else int(octal, 8)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)
