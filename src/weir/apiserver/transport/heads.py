"""Target and Content-Length of a request's head.

A query of thirty thousand parameters takes twenty milliseconds to parse, so parameters are counted before a request
is authenticated.
"""

from __future__ import annotations

from weir.apiserver.transport import limits

__all__ = ["content_length", "split_target", "target_problem"]


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
