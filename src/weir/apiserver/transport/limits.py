"""Limits on concurrent requests and on request size.

Spec: decision 12 (3 MiB, in-flight limits, 429 with Retry-After). Reads and writes have separate lanes, so that a
flood of lists does not delay heartbeats. Watches and other long-running requests do not count. `system:masters` is
admitted when a lane is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from weir.apiserver.auth.authn import MASTERS
from weir.errors import RequestTooLarge, Timeout, TooManyRequests

BODY_BYTES = 3 * 1024 * 1024
HEAD_BYTES = 64 * 1024
HEADER_BYTES = (
    32  # that each header counts beside its name and value, as in HTTP/2: many small ones are work too
)
PATH_BYTES = 8 * 1024  # of a path; the longest that names an object has less than two
MOST_PARAMETERS = 1000  # of a query
STRANGERS_TARGET_BYTES = 8 * 1024  # of path and query, looked at without a credential
ARRIVAL_SECONDS = 30.0  # for a request to be here whole, from its first byte
FIRST_REQUEST_SECONDS = 10.0  # for a connection that has not proven who it is to send a request
IDLE_SECONDS = 180.0  # between requests of a connection
LINGER_SECONDS = 0.5  # for a client that still writes to see that it was refused
DISCARDED_BYTES = (
    256 * 1024
)  # of what a refused client still writes, as Go's server reads past; the rest stays unread
SENDING_SECONDS = 30.0  # for a client to take any of an answer that waits for it
ANSWER_SECONDS = 60.0  # for an answer, except of what is long-running by nature
#: What all connections together may hold: request bodies that are arriving or being worked on, and
#: answers whose readers do not take them.
RECEIVED_BYTES = 32 * 1024 * 1024
UNSENT_BYTES = 16 * 1024 * 1024
LARGE_BODY_BYTES = 16 * 1024  # from here on a body needs a place before it is read
MOST_LARGE_OF_ONE_USER = 2  # bodies that are arriving or worked on, except of system:masters
MOST_LARGE_WAITING = 32  # bodies of one user that wait for a place: over TLS each has 200 KiB of buffers
PLACE_SECONDS = 15.0  # for a large body to wait for a place before it is refused
MOST_PIPELINED = 16  # requests of one connection behind the one that is being answered
MOST_SILENT = 1024  # connections over TLS that have sent nothing yet, with handshakes: 23 to 60 KiB each
MOST_SILENT_PLAIN = 2048  # connections without TLS that have sent nothing yet
FEWEST_HANDSHAKES = 128  # that may be in progress in any case
MOST_UNPROVEN = 64  # that have sent something and shown no credential; over TLS each has 200 KiB of buffers
MOST_OF_ONE_USER = 256  # connections, except of system:masters
READ_BYTES = 256 * 1024  # of one connection in one turn of the loop
SLICE_BYTES = 64 * 1024  # of an answer, handed to the transport at once
TLS_COPIES = 3  # of a slice that waits over TLS: plain text, encrypted, and in the system's hands
MOST_READING = 400
MOST_WRITING = 200
RETRY_AFTER_SECONDS = 1

_READING = frozenset({"get", "list", "watch", "head", "options"})
_LONG_SUBRESOURCES = frozenset({"attach", "exec", "log", "portforward", "proxy"})


def too_large(limit: int = BODY_BYTES) -> RequestTooLarge:
    """Return the 413 for a body that is larger than *limit*.

    >>> too_large().message
    'Request entity too large: limit is 3145728'
    """
    return RequestTooLarge(f"Request entity too large: limit is {limit}")


def too_many() -> TooManyRequests:
    """Return the 429 for a request there is no room for now."""
    return TooManyRequests(
        "Too many requests, please try again later.",
        details={"retryAfterSeconds": RETRY_AFTER_SECONDS},
        retry_after_seconds=RETRY_AFTER_SECONDS,
    )


def timed_out() -> Timeout:
    """Return the 504 for a request that took longer than the server gives it."""
    return Timeout("Timeout: request did not complete within the allotted timeout", details={})


def is_long_running(verb: str, subresource: str = "") -> bool:
    """Return whether a request stays open by its nature.

    >>> is_long_running("watch"), is_long_running("get", "log"), is_long_running("list")
    (True, True, False)
    """
    return verb == "watch" or subresource in _LONG_SUBRESOURCES


class Info(Protocol):
    """What is read of a parsed request."""

    @property
    def verb(self) -> str: ...
    @property
    def subresource(self) -> str: ...


class Lane:
    """Requests of one kind that are being worked on."""

    __slots__ = ("limit", "name", "now")

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit, self.now = name, limit, 0


class InFlight:
    """The two lanes. A limit of 0 means no limit."""

    def __init__(self, most_reading: int = MOST_READING, most_writing: int = MOST_WRITING) -> None:
        self.reading = Lane("readOnly", most_reading)
        self.writing = Lane("mutating", most_writing)

    def enter(self, info: Info, groups: Iterable[str] = ()) -> Lane | None:
        """Return the lane the request now occupies, None when it does not count; raises 429 when full."""
        if is_long_running(info.verb, info.subresource):
            return None
        lane = self.reading if info.verb in _READING else self.writing
        if 0 < lane.limit <= lane.now and MASTERS not in groups:
            raise too_many()
        lane.now += 1
        return lane

    @staticmethod
    def leave(lane: Lane | None) -> None:
        """Free the place that `enter` gave; must be called exactly once for it."""
        if lane is not None:
            lane.now -= 1


# ── target and body length of a request's head ──
# A query of thirty thousand parameters takes twenty milliseconds to parse, so parameters are counted before a request
# is authenticated.


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
    if len(path) > PATH_BYTES:
        return 414, b"request path too long"
    if query.count(b"&") >= MOST_PARAMETERS:
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
