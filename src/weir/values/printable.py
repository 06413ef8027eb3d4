r"""Escapes control characters in untrusted text for terminals.

Names, taints, labels and messages may contain escape sequences, line breaks or bidirectional overrides that would
forge output.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

#: What has to be looked at: everything but the printable characters of ASCII.
_ODD: Final = re.compile(r"[^ -~]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, keep: Container[str] = ()) -> str:
    r"""Return *text* as one line that moves, colours and hides nothing; the characters in *keep* stay.

    Escaped is what Unicode calls control, format, separator, surrogate, private or unassigned characters; the blank and
    letters of any script stay as they are.

    >>> print(printable("web\x1b[2J\n\u202eé"))
    web\x1b[2J\n\u202eé
    """
    if text.isprintable():
        return text
    return _ODD.sub(lambda odd: odd[0] if odd[0].isprintable() or odd[0] in keep else _escape(odd[0]), text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return _SHORT.get(char) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable_json(text: str) -> str:
    r"""Return the JSON *text*, which means the same, with every unprintable character of its strings escaped.

    >>> print(printable_json('["\x9b\u202e"]'))
    ["\u009b\u202e"]
    """
    return _ODD.sub(lambda odd: odd[0] if odd[0] == "\n" or odd[0].isprintable() else _units(odd[0]), text)


def _units(char: str) -> str:
    """Return the escapes of the UTF-16 units of *char*, the only ones JSON has."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def printable_yaml(text: str) -> str:
    """Return the YAML *text*, in which every string with an unprintable character stands in double quotes, with those
    characters escaped."""
    return printable(text, keep="\n")
