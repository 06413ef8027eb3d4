"""Warning headers of a response, deduplicated and bounded.

In total `MOST_CHARACTERS`; beyond, each is cut to `LONGEST_CUT` characters, and the rest is dropped, as by the real
server.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

__all__ = ["WarningRecorder", "first_warnings", "warning_headers"]

MOST_CHARACTERS = 4 * 1024
LONGEST_CUT = 256


class WarningRecorder(list[str]):
    """Warnings of one request, for the client, and annotations for the audit log."""

    def __init__(self) -> None:
        super().__init__()
        self.annotations: dict[str, str] = {}


def warning_headers(warnings: Iterable[str]) -> list[bytes]:
    """Return the values of the Warning headers for *warnings*.

    >>> warning_headers(["a", "b", "a"])
    [b'299 - "a"', b'299 - "b"']
    >>> sum(map(len, warning_headers("x" * size for size in range(5000)))) < 5000
    True
    """
    told = [text for text in dict.fromkeys(warnings) if text]
    if sum(map(len, told)) > MOST_CHARACTERS:
        told = _cut(told)
    return [_header(text) for text in told]


def first_warnings(warnings: Iterable[str]) -> list[str]:
    """Return as many of *warnings* as could be told, found now: where the caller runs, which may be beside the loop."""
    return list(islice(warnings, MOST_CHARACTERS))


def _cut(warnings: list[str]) -> list[str]:
    """Return the warnings, cut, that fit."""
    kept: list[str] = []
    written = 0
    for text in warnings:
        if written >= MOST_CHARACTERS:
            break
        kept.append(text[:LONGEST_CUT])
        written += len(kept[-1])
    return kept


def _header(text: str) -> bytes:
    r"""Return a warning as the header clients print.

    >>> _header('unknown field "spec.bogus"')
    b'299 - "unknown field \\"spec.bogus\\""'
    """
    escaped = "".join(char if char.isprintable() else " " for char in text)
    escaped = escaped.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'.encode()
