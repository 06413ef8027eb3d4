"""PEM blocks, read as Go's encoding/pem reads them.

Text around blocks and damaged blocks are skipped. Headers (`Key: value` lines before the content) are parsed;
certificate readers reject them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_BLOCK: Final = re.compile(
    rb"(?:^|\n)-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)(?:^|\n)?-----END \1-----[ \t\r]*(?=\n|$)", re.DOTALL
)
_BEGIN: Final = b"-----BEGIN "


class PemBlock(NamedTuple):
    """One block: what it says it is, whether it has headers, and its content."""

    type: str
    has_headers: bool
    content: bytes


def pem_blocks(text: bytes) -> Iterator[PemBlock]:
    """Yield the blocks of *text* in order.

    >>> [block.type for block in pem_blocks(b"x\\n-----BEGIN A-----\\nAAAA\\n-----END A-----\\n")]
    ['A']
    >>> list(pem_blocks(b"-----BEGIN A-----\\nno base64!\\n-----END A-----\\n"))
    []
    """
    at = 0
    while (found := _BLOCK.search(text, at)) is not None:
        name, body = found[1], found[2]
        if _BEGIN in body:  # the first block has no end: another begins inside it
            at = found.start(2) + max(body.index(_BEGIN) - 1, 0)
            continue
        headers, content = _without_headers(body)
        try:
            decoded = base64.b64decode(re.sub(rb"[ \t\r\n]", b"", content), validate=True)
        except binascii.Error:
            at = found.start(2)
            continue
        at = found.end()
        yield PemBlock(name.decode("utf-8", "replace"), headers, decoded)


def _without_headers(body: bytes) -> tuple[bool, bytes]:
    """Return whether the block has headers, and what follows them."""
    rest = body
    while b":" in (line := rest.partition(b"\n"))[0]:
        rest = line[2]
    return rest is not body, rest
