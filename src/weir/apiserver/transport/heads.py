"""Target and body length of a request's head.

A query of thirty thousand parameters takes twenty milliseconds to parse, so parameters are counted before a request
is authenticated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weir.apiserver.transport import limits

__all__ = ["HeadError", "body_length", "split_target", "target_problem"]

_BLANKS: Final = b" \t"  # that may stand around a header's value
_LONGEST_LENGTH: Final = 18  # digits of a Content-Length


class HeadError(ValueError):
    """A head that is not understood; its text is the answer."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode())
        self.text = text


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


def body_length(headers: Mapping[bytes, bytes], version: str) -> int | None:
    """Return how many bytes the body has, None when only its chunks say it; raises HeadError.

    Whatever the parser makes of a head, a body is read only as this function says.

    >>> body_length({b"host": b"x", b"content-length": b" 12 "}, "1.1"), body_length({b"host": b"x"}, "1.1")
    (12, 0)
    """
    if version not in ("1.0", "1.1"):
        raise HeadError(b"400 Bad Request: unsupported protocol version")
    if version == "1.1" and b"host" not in headers:
        raise HeadError(b"400 Bad Request: missing required Host header")
    length, encoding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if encoding is not None:
        if length is not None or version == "1.0" or encoding.strip(_BLANKS).lower() != b"chunked":
            raise HeadError(b"400 Bad Request: unsupported transfer encoding")
        return None
    if length is None:
        return 0
    digits = length.strip(_BLANKS)
    if not digits.isdigit() or len(digits) > _LONGEST_LENGTH:
        raise HeadError(b"400 Bad Request: bad Content-Length")
    return int(digits)
