"""Go's string quoting in messages: `%q` and compact JSON.

`%q` keeps printable non-ASCII and escapes the rest; compact JSON escapes `<`, `>` and `&`, as Go's encoder does.
"""

from __future__ import annotations

import json
from typing import Any, Final

_SHORT: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    '"': '\\"', "\\": "\\\\",
}  # fmt: skip


def quote(text: str) -> str:
    """Return *text* in double quotes with Go's escapes, as `%q` prints it.

    >>> print(quote('say "é"' + chr(10)))
    "say \\"é\\"\\n"
    """
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def compact_json(value: Any) -> str:
    """Return *value* as Go's encoder writes it: no blanks, and `<`, `>`, `&` escaped.

    >>> print(compact_json({"a": ["<b>", 1]}))
    {"a":["\\u003cb\\u003e",1]}
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        if char in text:
            text = text.replace(char, f"\\u{ord(char):04x}")
    return text
