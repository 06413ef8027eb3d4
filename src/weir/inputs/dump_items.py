"""Streams the objects of a large JSON dump.

`kubectl get -o json` writes a List with every object at the same indentation, and JSON strings have no line breaks,
so a closing brace at that depth ends an object. Pieces are kept without white space. A file in any other layout is
read whole by the caller; a wrong cut is noticed because every piece is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import msgspec

Tick = Callable[[int, int], None]
CHUNK_BYTES: Final = 4 << 20
_HEAD_BYTES: Final = 4096
#: No API server takes an object that is larger.
_LONGEST_PIECE_BYTES: Final = 32 << 20
_HEAD: Final = re.compile(rb'\A\s*\{\n(?:[ \t]+"[^"\n]*": "[^"\n]*",\n)*([ \t]+)"items": \[\n([ \t]+)\{\n')
_compact: Final = msgspec.json.format


class NotCut(Exception):
    """The file is not written in a way that lets it be read piece by piece."""


def cut(file: BinaryIO, size: int, tick: Tick, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield what a List says before its objects, then the objects, compact; raises NotCut, at the latest at the end."""
    held = file.read(max(_HEAD_BYTES, chunk_bytes))
    begins = _HEAD.match(held)
    if begins is None or not begins[2].startswith(begins[1]):
        raise NotCut
    outer, inner = begins[1], begins[2]
    between, last = b"\n" + inner + b"},\n" + inner + b"{\n", b"\n" + inner + b"}\n" + outer + b"]"
    head = held[: begins.end() - len(inner) - 2]
    yield _parsed(head + b"]}")
    held, opened, done = held[len(head) :], b"", len(held)
    while True:
        *whole, held = held.split(between)
        for piece in whole:
            yield _parsed(opened + piece + b"}")
            opened = b"{\n"
        more = file.read(chunk_bytes)
        if not more:
            break
        if len(held) > _LONGEST_PIECE_BYTES:
            raise NotCut
        held += more
        done += len(more)
        tick(done, size)
    piece, ends, tail = held.partition(last)
    if not ends:
        raise NotCut
    yield _parsed(opened + piece + b"}")
    _parsed(head + b"]" + tail)


def _parsed(piece: bytes) -> bytes:
    try:
        return _compact(piece, indent=-1)
    except msgspec.DecodeError:
        raise NotCut from None
