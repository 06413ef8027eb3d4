"""Request, Response and Stream types.

A front (weir.apiserver.transport.protocol, or a test) builds a `Request`, awaits `handle(request)` and gets a
`Response` (encoded bytes) or a `Stream` (a watch, which writes frames to a `Sink`). Independent of sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from weir.apiserver.auth.authn import User
    from weir.apiserver.transport.paths import RequestInfo

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
YAML = b"application/yaml"
#: The place of a request among those with large bodies (weir.apiserver.off_loop).
Turn = tuple[int, int]


class Query(dict[str, str]):
    """The parameters of a query: of a repeated one the first value counts; `all` has every value."""

    def __init__(self, query: str = "") -> None:
        super().__init__()
        self._repeated: dict[str, list[str]] = {}
        for name, value in parse_qsl(query, keep_blank_values=True) if query else ():
            if name in self:
                self._repeated.setdefault(name, [self[name]]).append(value)
            else:
                self[name] = value

    def all(self, name: str) -> list[str]:
        """Return every value of a parameter.

        >>> Query("dryRun=All&dryRun=None").all("dryRun"), Query("a=1").all("dryRun")
        (['All', 'None'], [])
        """
        return self._repeated.get(name) or ([self[name]] if name in self else [])


class Request:
    """One HTTP request. Header names are lower-case bytes."""

    __slots__ = (
        "_params",
        "body",
        "headers",
        "info",
        "line",
        "method",
        "path",
        "peer",
        "peer_certificate",
        "proven",
        "query",
        "too_large",
        "turn",
        "unread",
        "user",
    )

    info: RequestInfo
    user: User

    def __init__(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Mapping[bytes, bytes] | None = None,
        body: bytes = b"",
        *,
        peer: str = "",
        peer_certificate: bytes | None = None,
    ) -> None:
        self.method, self.path, self.query, self.body = method, path, query, body
        self.headers: Mapping[bytes, bytes] = headers or {}
        self.peer, self.peer_certificate = peer, peer_certificate
        self._params: Query | None = None
        #: who sent it, when the front has looked already
        self.proven: User | None = None
        #: in which line it waits, when its user's requests are not all one
        self.line = ""
        #: the body is longer than the server reads, and is not here
        self.too_large = False
        #: the body was not read, because the request is forbidden
        self.unread = False
        #: of a large body among others; None for an ordinary one
        self.turn: Turn | None = None

    @property
    def params(self) -> Query:
        """The query parameters."""
        if self._params is None:
            self._params = Query(self.query)
        return self._params

    def header(self, name: bytes) -> str:
        """Return a header as text, empty when absent."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value is not None else ""


class Response:
    """A complete answer."""

    __slots__ = ("body", "code", "content_type", "headers")

    def __init__(
        self,
        code: int,
        body: bytes,
        content_type: bytes = JSON,
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self.code, self.body, self.content_type = code, body, content_type
        self.headers = headers

    @property
    def size(self) -> int:
        """How long the body is."""
        return len(self.body)

    @property
    def own_bytes(self) -> int:
        """How much memory is held for this answer alone."""
        return len(self.body)

    def slices(self, size: int) -> Iterator[bytes | memoryview]:
        """Yield the body in parts of about *size* bytes."""
        return _cut(self.body, size)


class ListResponse(Response):
    """An answer whose body are items with a separator between them, joined slice by slice while it is sent.

    Users of the whole body (compression, the audit log, an in-process client) get it joined.
    Joined at once, a list of 5,000 pods costs twice as much to send: it is copied into memory that the system has to
    find, and takes back, every time. tests/unit/apiserver/transport/test_http.py holds the slices against the body.
    """

    __slots__ = ("_items", "_separator", "_size", "own_bytes")

    own_bytes: int

    def __init__(
        self, code: int, items: Sequence[bytes], separator: bytes = b",", content_type: bytes = JSON
    ) -> None:
        self._items, self._separator = items, separator
        self._size = sum(map(len, items)) + max(len(items) - 1, 0) * len(separator)
        self.own_bytes = 0  # the items are the store's
        self.code, self.content_type, self.headers = code, content_type, None

    @property
    def body(self) -> bytes:
        """The whole of it, joined anew whenever it is asked for."""
        return self._separator.join(self._items)

    @body.setter
    def body(self, body: bytes) -> None:
        self._items, self._size = (body,), len(body)
        self.own_bytes = len(body)

    @property
    def size(self) -> int:
        """How long the body is."""
        return self._size

    def slices(self, size: int) -> Iterator[bytes | memoryview]:
        """Yield the body in parts of about *size* bytes: as many items each as have that size on average.

        >>> [bytes(part) for part in ListResponse(200, [b"[aa", b"b", b"cccccccc", b"d]"]).slices(5)]
        [b'[aa,', b'b,', b'cccccccc,', b'd]']
        """
        items = self._items
        step = max(1, size * len(items) // max(self._size, 1))
        for at in range(0, len(items), step):
            few = items[at : at + step]
            part = self._separator.join(few if at + step >= len(items) else (*few, b""))
            if len(part) <= 2 * size:
                yield part
            else:
                yield from _cut(part, size)


def _cut(body: bytes, size: int) -> Iterator[memoryview]:
    """Yield *body* in parts of at most *size* bytes, which are no copies."""
    view = memoryview(body)
    for at in range(0, len(body), size):
        yield view[at : at + size]


class Sink(Protocol):
    """Where a stream writes. `write` takes whole frames; chunked framing is the front's or the frame's."""

    def write(self, frame: bytes) -> None:
        """Send one frame as one HTTP chunk."""

    def write_chunk(self, chunk: bytes) -> None:
        """Send bytes that already are an HTTP/1.1 chunk (shared between many watchers)."""

    def close(self) -> None:
        """End the answer."""

    def abort(self) -> None:
        """Break the connection: the reader is too slow."""

    @property
    def pending_bytes(self) -> int:
        """How much was written that the reader has not taken yet."""


class Stream:
    """An answer that goes on: `run` is awaited with a sink and returns when the stream is over."""

    __slots__ = ("code", "content_type", "headers", "run")

    def __init__(
        self,
        run: Callable[[Sink], Awaitable[None]],
        content_type: bytes = JSON,
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self.code = 200
        self.run, self.content_type, self.headers = run, content_type, headers


Handler = Callable[[Request], Awaitable["Response | Stream"]]
Document = dict[str, Any]


# ── HTTP/1.1 response heads, the sink of a watch, and the transport of a lost connection ──


_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: ".encode()
    for status in HTTPStatus
}


def head_of(answer: Response, keep: bool) -> bytes:
    """Return the head of an answer.

    >>> head_of(Response(200, b"ok", b"text/plain"), keep=False)
    b'HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nConnection: close\\r\\nContent-Length: 2\\r\\n\\r\\n'
    """
    # A webhook may refuse with any code it likes.
    line = _STATUS_LINES.get(answer.code) or b"HTTP/1.1 %d Refused\r\nContent-Type: " % answer.code
    parts = [line, answer.content_type]
    for name, value in answer.headers or ():
        parts += (b"\r\n", name, b": ", value)
    if not keep:
        parts.append(b"\r\nConnection: close")
    parts.append(b"\r\nContent-Length: %d\r\n\r\n" % answer.size)
    return b"".join(parts)


def head_of_stream(answer: Stream) -> bytes:
    """Return the head of an answer that goes on."""
    parts = [_STATUS_LINES[answer.code], answer.content_type]
    for name, value in answer.headers or ():
        parts += (b"\r\n", name, b": ", value)
    parts.append(b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    return b"".join(parts)


class TransportSink:
    """A watch's way to its client."""

    __slots__ = ("_transport", "lost")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.lost = False

    def write(self, frame: bytes) -> None:
        """Send one frame as one chunk."""
        self.write_chunk(b"%x\r\n%b\r\n" % (len(frame), frame))

    def write_chunk(self, chunk: bytes) -> None:
        """Send a ready chunk."""
        if not self.lost:
            self._transport.write(chunk)

    def close(self) -> None:
        """End the answer."""
        if not self.lost:
            self._transport.write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Break the connection."""
        self.lost = True
        self._transport.abort()

    @property
    def pending_bytes(self) -> int:
        """What the client has not taken yet."""
        return 0 if self.lost else int(self._transport.get_write_buffer_size())


class _ClosedTransport(asyncio.Transport):
    """Transport that is closed and drops what is written to it."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: object) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


#: Stands in for the transport of every lost connection.
CLOSED = _ClosedTransport()
