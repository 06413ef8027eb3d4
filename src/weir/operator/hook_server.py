"""HTTPS server of the webhooks: one AdmissionReview in, one out, on connections that stay open.

Only the cluster's API server is served. A request is judged by its head alone: POST to the path of a webhook behind a
path secret, from a client certificate with an allowed name where such are asked for (the TLS handshake asks for the
certificate itself). Anything else gets a short answer and the end of its connection, and no byte of its body is read.
GET of the health pages needs no credential. Every pod of a cluster may connect, so connections that have proven nothing
are few, have little time and make room for each other by address; one that has sent a request of the API server's is
counted apart, and no other takes its place. Bodies are bounded by the bytes that have arrived of all of them. Open
connections are ended on shutdown: an API server keeps using one as long as it is answered, and would otherwise never
turn to the other replica.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from weir.lowering.webhooks import SERVED_PATHS
from weir.observe.by_address import ByAddress
from weir.observe.listener import listen
from weir.observe.logs import Log

_LONGEST_HEAD: Final = 16 * 1024
_LONGEST_BODY: Final = 8 * 1024 * 1024  # an API server takes objects of 3 MiB, and a review may hold two
_ALL_BODIES: Final = 32 * 1024 * 1024  # of what has arrived and is not answered
_STRANGER_SECONDS: Final = 5.0  # for a connection to prove itself
_REQUEST_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 180.0
_CLOSE_SECONDS: Final = 2.0
_MOST_HANDSHAKES: Final = 256
_MOST_STRANGERS: Final = 128
_MOST_CONNECTIONS: Final = 256  # that have proven to be an API server's
_MOST_DIGITS: Final = 15  # of a length
_LONGEST_TEXT: Final = 1024  # of an error that is answered
_PIECE: Final = 64 * 1024
_PHRASES: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

Document = dict[str, Any]
Review = Callable[[str, Mapping[str, Any]], Awaitable[Document]]
_Tasks = ByAddress[asyncio.Task[Any]]
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_LOG: Final = Log("weir.operator")

#: Why a request is refused, as a metric's label: these and no others.
REFUSALS: Final = ("head", "method", "path", "name", "body", "room", "unready")


def _ignore(why: str) -> None:
    """Take no notice of a refusal."""


@dataclass(frozen=True)
class Callers:
    """Who is heard: callers that name a secret, with a certificate for one of *names* where there are any."""

    admits: Callable[[str], bool]
    names: frozenset[str] = frozenset()
    refused: Callable[[str], None] = _ignore  #: is told why, in one of `REFUSALS`


class _Refused(Exception):
    """A request that is not answered: the code, one of `REFUSALS`, and a few fixed words."""

    def __init__(self, code: int, why: str, text: bytes = b"") -> None:
        self.code, self.why, self.text = code, why, text


class _Room:
    """What the bodies of all connections hold, by address."""

    def __init__(self) -> None:
        self._all = 0
        self._of: dict[str, int] = {}

    def take(self, address: str, size: int) -> None:
        """Take *size* bytes; raises _Refused when there is no room."""
        held = self._of.get(address, 0) + size
        if held + size + self._all > _ALL_BODIES:
            raise _Refused(503, "room")
        self._all += size
        self._of[address] = held

    def free(self, address: str, size: int) -> None:
        """Give back what was taken."""
        self._all -= size
        left = self._of.get(address, 0) - size
        if left > 0:
            self._of[address] = left
        else:
            self._of.pop(address, None)


class _Body:
    """A body that is arriving."""

    def __init__(self, reader: asyncio.StreamReader, room: _Room, address: str) -> None:
        self._reader, self._room, self._address = reader, room, address
        self.content = bytearray()

    async def read(self, size: int) -> None:
        """Read *size* more bytes, as they come; raises _Refused, IncompleteReadError."""
        if len(self.content) + size > _LONGEST_BODY:
            raise _Refused(413, "body")
        while size:
            piece = await self._reader.read(min(size, _PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            self._room.take(self._address, len(piece))
            self.content += piece
            size -= len(piece)

    def free(self) -> None:
        """Give its room to others."""
        self._room.free(self._address, len(self.content))
        self.content = bytearray()


@dataclass(frozen=True, slots=True)
class _Head:
    """A request without its body."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def has_body(self) -> bool:
        return "transfer-encoding" in self.headers or self.headers.get("content-length", "0") != "0"

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


@asynccontextmanager
async def serving(
    review: Review, ready: Callable[[], bool], host: str, port: int, tls: ssl.SSLContext, callers: Callers
) -> AsyncIterator[int]:
    """Serve webhooks while the block runs; gives the port, which is chosen when *port* is 0."""
    strangers, proven, room = _Tasks(_MOST_STRANGERS), _Tasks(_MOST_CONNECTIONS), _Room()
    loop = asyncio.get_running_loop()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        address = str((writer.get_extra_info("peername") or ("",))[0])
        _count(strangers, address, task)

        def prove() -> None:
            strangers.discard(address, task)
            _count(proven, address, task)

        body = _Body(reader, room, address)
        connection = _Connection(reader, writer, body, callers, prove)
        try:
            while await connection.exchange(review, ready):
                body.free()
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            TimeoutError,
            OSError,
            asyncio.CancelledError,
        ) as error:  # gone, not worth an answer, or the end
            _cut_loose(error)
        finally:
            body.free()
            strangers.discard(address, task)
            proven.discard(address, task)
            writer.close()
            try:
                await asyncio.wait_for(writer.wait_closed(), _CLOSE_SECONDS)
            except (OSError, TimeoutError, asyncio.CancelledError) as error:
                _cut_loose(error)
            writer.transport.abort()  # a reader that does not take its answer

    def protocol() -> asyncio.BaseProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(_LONGEST_HEAD, loop), talk, loop)

    listener = await listen(protocol, host, port, tls, most_handshakes=lambda: _MOST_HANDSHAKES)
    try:
        yield listener.port
    finally:
        listener.close()
        tasks = [*strangers, *proven]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _cut_loose(error: BaseException) -> None:
    """Let go of the frames of a failure: its stream keeps it, and they the buffers, until the collector comes."""
    error.__traceback__ = None
    if error.__context__ is not None:
        error.__context__.__traceback__ = None


def _count(connections: _Tasks, address: str, task: asyncio.Task[Any]) -> None:
    """Count a connection; the one that has to make room for it is ended."""
    evicted = connections.add(address, task)
    if evicted is not None:
        evicted.cancel()


class _Connection:
    """One client: a stranger until a head of its proves otherwise."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        body: _Body,
        callers: Callers,
        prove: Callable[[], None],
    ) -> None:
        self._reader, self._writer, self._body, self._callers = reader, writer, body, callers
        self._prove: Callable[[], None] | None = prove  #: None once it is proven

    async def exchange(self, review: Review, ready: Callable[[], bool]) -> bool:
        """Answer one request; return whether the connection goes on."""
        try:
            head = await self._read_head()
            if head.method == "GET":
                code, answer = _page(head, ready)
            else:
                path = self._admitted(head)
                if not ready():
                    raise _Refused(503, "unready", b"weir does not know the cluster yet")
                async with asyncio.timeout(_REQUEST_SECONDS):
                    await _read_body(self._body, self._reader, head.headers)
                code, answer = await _answer(path, bytes(self._body.content), review)
            close = head.closes or self._prove is not None
        except _Refused as refusal:
            self._callers.refused(refusal.why)
            code, answer, close = refusal.code, refusal.text, True
        async with asyncio.timeout(_STRANGER_SECONDS if self._prove is not None else _REQUEST_SECONDS):
            self._writer.write(_response(code, answer, close=close))
            await self._writer.drain()
        return not close

    async def _read_head(self) -> _Head:
        try:
            async with asyncio.timeout(_STRANGER_SECONDS if self._prove is not None else _IDLE_SECONDS):
                return _head(await self._reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            raise _Refused(400, "head") from None

    def _admitted(self, head: _Head) -> str:
        """Return the webhook's path that *head* asks for; raises _Refused for whoever is not the API server."""
        if head.method != "POST":
            raise _Refused(405, "method", b"only GET and POST")
        secret, _, path = head.path.removeprefix("/").partition("/")
        if not self._callers.admits(secret) or f"/{path}" not in SERVED_PATHS:
            raise _Refused(404, "path", b"404 page not found")
        if self._callers.names and not self._callers.names & _certified(self._writer):
            raise _Refused(403, "name", b"the client certificate has none of the allowed names")
        if self._prove is not None:
            self._prove()
            self._prove = None
        return f"/{path}"


def _certified(writer: asyncio.StreamWriter) -> set[str]:
    """Return the names that the client's certificate, which TLS has verified, is for."""
    certificate: Mapping[str, Any] = writer.get_extra_info("peercert") or {}
    common = {
        value for part in certificate.get("subject") or () for key, value in part if key == "commonName"
    }
    return common | {value for _, value in certificate.get("subjectAltName") or ()}


def _page(head: _Head, ready: Callable[[], bool]) -> tuple[int, bytes]:
    if head.has_body:
        raise _Refused(400, "body")
    if head.path == "/livez":
        return 200, b"ok"
    if head.path in ("/healthz", "/readyz"):
        return (200, b"ok") if ready() else (503, b"not ready")
    raise _Refused(404, "path", b"404 page not found")


async def _answer(path: str, body: bytes, review: Review) -> tuple[int, bytes]:
    try:
        document = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 400, b"not an AdmissionReview"
    if not isinstance(document.get("request"), dict):
        return 400, b"not an AdmissionReview"
    try:
        return 200, _encode(await review(path, document))
    except Exception as error:  # anything: the API server must get an answer, and the log the reason
        _LOG.exception("A webhook call failed", path=path)
        return 500, str(error).encode("utf-8", "replace")[:_LONGEST_TEXT]


def _head(head: bytes) -> _Head:
    """Read a head; raises _Refused for one that two readers might understand differently."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise _Refused(400, "head")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name != name.strip() or (name in headers and name in _ONCE):
            raise _Refused(400, "head")
        headers[name] = value.strip(" \t")
    if headers.keys() >= _ONCE or headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise _Refused(400, "head")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise _Refused(400, "head")
    if len(length) > _MOST_DIGITS:
        raise _Refused(413, "body")
    return _Head(words[0], words[1].partition("?")[0], headers)


_ONCE: Final = frozenset({"content-length", "transfer-encoding"})


async def _read_body(body: _Body, reader: asyncio.StreamReader, headers: Mapping[str, str]) -> None:
    if "transfer-encoding" in headers:
        await _read_chunks(body, reader)
    else:
        await body.read(int(headers.get("content-length", "0")))


async def _read_chunks(body: _Body, reader: asyncio.StreamReader) -> None:
    trailers = 0
    while True:
        try:
            size = int((await reader.readline()).split(b";")[0].strip(), 16)
        except ValueError:
            raise _Refused(400, "body") from None
        if size < 0:
            raise _Refused(413, "body")
        if size == 0:
            break
        await body.read(size)
        await reader.readexactly(2)
    while True:
        try:
            line = await reader.readline()
        except ValueError:  # longer than a head
            raise _Refused(400, "body") from None
        trailers += len(line)
        if trailers > _LONGEST_HEAD:
            raise _Refused(400, "body")
        if not line.strip():
            return


def _response(code: int, body: bytes, *, close: bool) -> bytes:
    kind = "application/json" if body.startswith(b"{") else "text/plain; charset=utf-8"
    lines = [
        f"HTTP/1.1 {code} {_PHRASES[code]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body
