"""What does the head of a request say, and is it one that is looked at? Is it one that came before?

A target that nobody needs costs as much as an attacker likes before anybody has said who asks: a query of thirty
thousand parameters takes twenty milliseconds to take apart, so it is counted first.
A client that creates one object after the other sends the same head each time. What the parser made of those bytes
between two requests it makes of them again, so a head that is known is not parsed: `KnownHeads` finds it by its bytes,
all of them, and only when its body has come with it, whole and alone. Who sends it is asked every time.
tests/property/test_known_heads.py holds connections that know heads against others that parse each.
Not here: headers, which are counted as they come (weir.apiserver.transport.protocol); what a path means (.paths).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from weir.apiserver.transport import limits
from weir.apiserver.transport.http import Request

__all__ = ["Head", "KnownHeads", "content_length", "split_target", "target_problem"]

MOST_HEADS: Final = 1_000
LONGEST_HEAD: Final = 2_000
_SECOND: Final = ord("O")  # of POST; hardly another method has it
_END: Final = b"\r\n\r\n"
#: Headers that change how a request is read or answered: heads with one of them are parsed.
_PARSED: Final = (b"transfer-encoding", b"expect", b"upgrade")


class Head(NamedTuple):
    """What the parser made of a head."""

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    length: int  #: of the body


class KnownHeads:
    """The heads of creating requests that came more than once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head | None] = {}  # None: it came once

    def __len__(self) -> int:
        return len(self._known)

    def find(self, data: memoryview) -> tuple[Head, bytes] | None:
        """Return head and body of *data*, when that is a request with a known head, all of it and nothing else."""
        size = len(data)
        if not 1 < size < LONGEST_HEAD + limits.LARGE_BODY_BYTES or data[1] != _SECOND:
            return None
        text = bytes(data)
        end = text.find(_END) + len(_END)
        head = self._known.get(text[:end])
        if head is None or size != end + head.length:
            return None
        return head, text[end:]

    def learn(self, data: memoryview, request: Request) -> None:
        """Remember how the head of *data*, which ends with *request*, was parsed, if it came before."""
        length = content_length(request.headers.get(b"content-length"))
        size = len(data) - length
        if (
            request.method != "POST"
            or not 0 < length < limits.LARGE_BODY_BYTES
            or not 0 < size <= LONGEST_HEAD
            or any(name in request.headers for name in _PARSED)
        ):
            return
        text = bytes(data[:size])
        if text.find(_END) != size - len(_END):
            return  # there is another request before it
        if text in self._known:
            self._known[text] = Head(request.method, request.path, request.query, request.headers, length)
        else:
            if len(self._known) >= MOST_HEADS:
                self._known.clear()
            self._known[text] = None


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Return the path and the query of a request line's target.

    >>> split_target(b"/api?a=b"), split_target(b"http://proxy:80/api")
    ((b'/api', b'a=b'), (b'/api', b''))
    """
    path, _, query = target.partition(b"?")
    if not path.startswith(b"/"):
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return path, query


def target_problem(path: bytes, query: bytes) -> tuple[int, bytes] | None:
    """Return the code and text of the refusal of a target that is not looked at, None for any other.

    >>> target_problem(b"/" + b"a" * 9000, b""), target_problem(b"/api", b"a=b&c=d")
    ((414, b'request path too long'), None)
    """
    if len(path) > limits.PATH_BYTES:
        return 414, b"request path too long"
    if query.count(b"&") >= limits.MOST_PARAMETERS:
        return 400, b"400 Bad Request: too many query parameters"
    return None


def content_length(header: bytes | None) -> int:
    """Return what Content-Length says, 0 when it is absent (the parser has refused what is no number)."""
    return int(header) if header is not None and header.isdigit() and len(header) < 20 else 0
