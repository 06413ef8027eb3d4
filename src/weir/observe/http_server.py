"""Small HTTP/1.1 server: webhooks of the operator, pages of components and the page of `weir ui` are sites of it.

A request is judged by its head: the site admits or refuses it before a byte of its body is read. One request at a time
is answered on a connection. A connection whose client has not proven who it is gets little time and one answer, and
gives way to others by address; a proven one stays open, is counted apart, and no other takes its place. Bodies are
bounded by the bytes that have arrived of all of them. Open connections are ended on shutdown. The API server has a
server of its own, for watches, slices and pipelining (weir.apiserver.transport.protocol).
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol

from weir.observe.listener import ByAddress, Listener, listen

TEXT: Final = "text/plain; charset=utf-8"
_LONGEST_HEAD: Final = 16 * 1024
_CLOSE_SECONDS: Final = 2.0
_MOST_HANDSHAKES: Final = 256
_MOST_DIGITS: Final = 15  # of a length
_PIECE: Final = 64 * 1024
#: Headers that two readers must not understand differently.
_ONCE: Final = frozenset({"content-length", "transfer-encoding", "host"})
_FRAMING: Final = _ONCE - {"host"}
#: What may stand in a head: other control characters end a line or a text for some readers.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n$")
_Tasks = ByAddress[asyncio.Task[Any]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may take of a server."""

    body_bytes: int  #: of one request
    all_bodies_bytes: int  #: of what has arrived and is not answered
    strangers: int  #: connections that have not proven who they are
    connections: int  #: that have
    stranger_seconds: float  #: for a stranger to send a head, and to take an answer
    request_seconds: float  #: for a body to arrive, and for an answer to be taken
    idle_seconds: float  #: between the requests of a proven connection


class Answer(NamedTuple):
    """A response."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


class Refused(Exception):
    """A request that is not answered, and ends its connection: code, a fixed word for metrics, a few words."""

    def __init__(self, code: int, why: str, text: bytes = b"") -> None:
        self.code, self.why, self.text = code, why, text


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body."""

    method: str
    target: str  #: path and query
    headers: Mapping[str, str]  #: by name in lower case
    certificate: Mapping[str, Any]  #: of the client, verified by TLS; empty without one

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def has_body(self) -> bool:
        """Whether a body follows."""
        return "transfer-encoding" in self.headers or self.headers.get("content-length", "0") != "0"


class Site(Protocol):
    """What a server serves."""

    def admit(self, head: Head) -> bool:
        """Return whether the client has proven who it is; raises Refused for a request that is not answered."""

    async def answer(self, head: Head, body: bytes) -> Answer:
        """Return the response to an admitted request; raises Refused."""

    def refuse(self, refused: Refused, head: Head | None) -> Answer:
        """Return how a refusal is shown, and count it; without *head*, that could not be read."""


class _Room:
    """What the bodies of all connections hold, by address."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._all = 0
        self._of: dict[str, int] = {}

    def take(self, address: str, size: int) -> None:
        """Take *size* bytes; raises Refused when there is no room."""
        held = self._of.get(address, 0) + size
        if held + size + self._all > self.limits.all_bodies_bytes:
            raise Refused(503, "room")
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


class Body:
    """A body that is arriving."""

    def __init__(self, reader: asyncio.StreamReader, room: _Room, address: str) -> None:
        self._reader, self._room, self._address = reader, room, address
        self.content = bytearray()

    async def receive(self, headers: Mapping[str, str]) -> None:
        """Read all of it; raises Refused, IncompleteReadError."""
        if "transfer-encoding" in headers:
            await self._receive_chunks()
        else:
            await self.read(int(headers.get("content-length", "0")))

    async def read(self, size: int) -> None:
        """Read *size* more bytes, as they come; raises Refused, IncompleteReadError."""
        if len(self.content) + size > self._room.limits.body_bytes:
            raise Refused(413, "body")
        while size:
            piece = await self._reader.read(min(size, _PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            self._room.take(self._address, len(piece))
            self.content += piece
            size -= len(piece)

    async def _receive_chunks(self) -> None:
        trailers = 0
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:  # longer than a head
                raise Refused(400, "body") from None
            if (chunk := _CHUNK.match(line)) is None:
                raise Refused(400, "body")
            if not (size := int(chunk[1], 16)):
                break
            await self.read(size)
            if await self._reader.readexactly(2) != b"\r\n":
                raise Refused(400, "body")
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:  # longer than a head
                raise Refused(400, "body") from None
            trailers += len(line)
            if trailers > _LONGEST_HEAD:
                raise Refused(400, "body")
            if not line.strip():
                return

    def free(self) -> None:
        """Give its room to others."""
        self._room.free(self._address, len(self.content))
        self.content = bytearray()


@asynccontextmanager
async def serving(
    site: Site, limits: Limits, host: str, port: int | socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve *site* while the block runs; gives the port, which is chosen when *port* is 0.

    *port* may be a socket that listens already.
    """
    strangers, proven, room = _Tasks(limits.strangers), _Tasks(limits.connections), _Room(limits)
    loop = asyncio.get_running_loop()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        address = str((writer.get_extra_info("peername") or ("",))[0])
        _count(strangers, address, task)

        def prove() -> None:
            strangers.discard(address, task)
            _count(proven, address, task)

        body = Body(reader, room, address)
        connection = _Connection(reader, writer, body, limits, prove)
        try:
            while await connection.exchange(site):
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

    if isinstance(port, socket.socket):
        port.setblocking(False)
        listener = Listener(protocol, [port], tls, lambda: _MOST_HANDSHAKES)
    else:
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
        body: Body,
        limits: Limits,
        prove: Callable[[], None],
    ) -> None:
        self._reader, self._writer, self._body, self._limits = reader, writer, body, limits
        self._prove: Callable[[], None] | None = prove  #: None once it is proven

    async def exchange(self, site: Site) -> bool:
        """Answer one request; return whether the connection goes on."""
        head, limits, whole = None, self._limits, True
        try:
            head = await self._read_head()
            if site.admit(head) and self._prove is not None:
                self._prove()
                self._prove = None
            if head.has_body:
                async with asyncio.timeout(limits.request_seconds):
                    await self._body.receive(head.headers)
            answer = await site.answer(head, bytes(self._body.content))
            whole = head.method != "HEAD"
            close = head.headers.get("connection", "").lower() == "close" or self._prove is not None
        except Refused as refused:
            answer, close = site.refuse(refused, head), True
        seconds = limits.stranger_seconds if self._prove is not None else limits.request_seconds
        async with asyncio.timeout(seconds):
            self._writer.write(_head_of(answer, close=close) + (answer.body if whole else b""))
            await self._writer.drain()
        return not close

    async def _read_head(self) -> Head:
        limits = self._limits
        try:
            async with asyncio.timeout(
                limits.stranger_seconds if self._prove is not None else limits.idle_seconds
            ):
                text = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise Refused(400, "head") from None
        return read_head(text, self._writer.get_extra_info("peercert") or {})


def read_head(head: bytes, certificate: Mapping[str, Any] = {}) -> Head:
    """Read a head; raises Refused for one that two readers might understand differently.

    >>> read_head(b"GET /metrics?a HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n").path
    '/metrics'
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1") or not words[1] or "\t" in first:
        raise Refused(400, "head", b"not an HTTP request")
    headers: dict[str, str] = {}
    if any(map(_CONTROL.search, (first, *lines))):
        raise Refused(400, "head")
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        name = name.lower()
        if not name or not colon or name != name.strip() or (name in headers and name in _ONCE):
            raise Refused(400, "head")
        headers[name] = value.strip(" \t")
    if headers.keys() >= _FRAMING or headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise Refused(400, "head")
    if words[2] == "HTTP/1.0" and "transfer-encoding" in headers:
        raise Refused(400, "head")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise Refused(400, "head")
    if len(length) > _MOST_DIGITS:
        raise Refused(413, "body")
    return Head(words[0], words[1], headers, certificate)


def _head_of(answer: Answer, *, close: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        *(f"{name}: {value}" for name, value in answer.headers.items()),
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join((*lines, "", "")).encode("latin-1")
