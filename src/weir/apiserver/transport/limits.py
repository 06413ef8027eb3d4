"""Limits on concurrent requests and on request size.

Spec: decision 12 (3 MiB, in-flight limits, 429 with Retry-After). Reads and writes have separate lanes, so that a
flood of lists does not delay heartbeats. Watches and other long-running requests do not count. `system:masters` is
admitted when a lane is full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

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
UNSENT_BYTES = 32 * 1024 * 1024
LARGE_BODY_BYTES = 16 * 1024  # from here on a body needs a place before it is read
MOST_LARGE_OF_ONE_USER = 3  # bodies that are arriving or worked on, except of system:masters
MOST_LARGE_WAITING = 32  # bodies of one user that wait for a place: over TLS each has 200 KiB of buffers
PLACE_SECONDS = 15.0  # for a large body to wait for a place before it is refused
MOST_PIPELINED = 16  # requests of one connection behind the one that is being answered
MOST_SILENT = 704  # connections over TLS that have sent nothing yet, with handshakes: 23 to 60 KiB each
MOST_SILENT_PLAIN = 2048  # connections without TLS that have sent nothing yet
FEWEST_HANDSHAKES = 128  # that may be in progress in any case
MOST_UNPROVEN = 128  # that have sent something and shown no credential; over TLS each has 200 KiB of buffers
MOST_OF_ONE_USER = 256  # connections, except of system:masters
READ_BYTES = 256 * 1024  # of one connection in one turn of the loop
SLICE_BYTES = 64 * 1024  # of an answer, handed to the transport at once
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
