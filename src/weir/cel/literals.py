"""Values of number, string and bytes literals.

Spec: cel.md 2.2. In strings `\\x` and octal escapes are code points, in bytes they are octets; `\\u` and `\\U` do
not exist in bytes. Each function raises ValueError with the message of the issue.
"""

from __future__ import annotations

import re
from typing import Final

from weir.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip
_ESCAPE: Final = re.compile(
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
    return _ESCAPE.sub(_code_point, body)


def parse_bytes(text: str) -> bytes:
    """The value of a bytes literal, `b` included in *text*."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    last = 0
    for found in _ESCAPE.finditer(body):
        parts.append(body[last : found.start()].encode("utf-8", "surrogatepass"))
        hexadecimal, octal, simple = found.groups()
        if hexadecimal:
            if hexadecimal[0] in "uU":
                raise ValueError("unable to unescape string")
            parts.append(bytes([int(hexadecimal[1:], 16)]))
        elif octal:
            parts.append(bytes([int(octal, 8)]))
        else:
            parts.append(_SIMPLE[simple].encode())
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
        return _SIMPLE[simple]
    code = int(hexadecimal[1:], 16) if hexadecimal else int(octal, 8)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)
