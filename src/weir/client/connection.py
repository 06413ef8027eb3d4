"""HTTP/1.1 connections and their pool.

A small client on httptools: a request costs a third of the CPU of a general HTTP library. A connection carries one
request at a time; the pool opens as many as needed, up to a limit. A read on a connection that the server had closed
is retried on a new one; a write is not, because it may have happened.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple, cast

import httptools

IDLE_SECONDS = 60.0
PAUSE_BYTES = 8 << 20
RESUME_BYTES = 1 << 20
LINE_LIMIT_BYTES = 64 << 20
MOST_HEAD_BYTES = 1 << 20  # of an answer's head, of its trailers, and of what frames its body
FRAME_BYTES = 8  # that a byte of the body may bring with it: servers may send chunks of one byte


class Broken(Exception):
    """The connection could not be made, or ended before the answer did."""

    def __init__(self, message: str, *, before_answer: bool = False) -> None:
        super().__init__(message)
        self.before_answer = before_answer  # not a byte of the answer had come


class BodyTooLarge(Broken):
    """The body of the answer is larger than the caller takes."""


class Address(NamedTuple):
    """Where to connect to, and how."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: tuple[str, int] | None = None
    socket: str = ""  #: a Unix socket instead of host and port


class Answer(NamedTuple):
    """An answer; of a stream the head only. Header names are in lower case."""

    code: int
    headers: dict[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """One socket, one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_body_bytes: int = 0) -> None:
        self._loop, self._most_body_bytes = loop, most_body_bytes
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Answer] | None = None
        self._headers: dict[str, str] = {}
        self._parts: deque[bytes] = deque()
        self._streaming = self._head_done = self._complete = self._started = False
        self._sized = True
        self._pending = 0
        self._head_room = MOST_HEAD_BYTES
        self._paused = False
        self._reader: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self.reusable = False
        self.idle_since = 0.0

    # ----------------------------------------------------------------------------------------- the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        if self._answer is None and not self._streaming:
            self.close()  # unexpected data
            return
        self._started = True
        self._head_room -= len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # a proxy's answer to CONNECT
        except httptools.HttpParserError as error:
            self._fail(Broken(f"not an HTTP answer: {error}"))
            self.close()
        else:
            if self._head_room < 0:
                self.fail(Broken(f"the head of the answer is larger than {MOST_HEAD_BYTES} bytes"))

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        self._transport = None
        if self._head_done and not self._complete and not self._sized and error is None:
            self.on_message_complete()  # an answer without length ends with its connection
            return
        reason = str(error) if error is not None else "the server closed the connection"
        self._fail(Broken(reason, before_answer=not self._started))

    def _fail(self, error: Exception) -> None:
        if self._complete:
            return
        self._failure = error
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # ----------------------------------------------------------------------------------------- the parser's side

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._head_done = True
        headers = self._headers
        self._sized = "content-length" in headers or "transfer-encoding" in headers
        if self._streaming and self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(self._parser.get_status_code(), headers, b""))

    def on_body(self, body: bytes) -> None:
        self._head_room = min(MOST_HEAD_BYTES, self._head_room + len(body) * FRAME_BYTES)
        self._parts.append(body)
        if self._streaming:
            self._pending += len(body)
            if self._pending > PAUSE_BYTES and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            self._wake()
        elif self._most_body_bytes:
            self._pending += len(body)
            if self._pending > self._most_body_bytes:
                self.fail(BodyTooLarge(f"the body is larger than {self._most_body_bytes} bytes"))

    def on_message_complete(self) -> None:
        code = self._parser.get_status_code()
        if 100 <= code < 200 and code != 101:
            self._headers, self._head_done = {}, False
            return
        self._complete = True
        self.reusable = self._sized and self._parser.should_keep_alive() and self._transport is not None
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(code, self._headers, b"".join(self._parts)))
        self._wake()

    # ----------------------------------------------------------------------------------------- the caller's side

    def send(self, request: bytes, *, streaming: bool = False) -> asyncio.Future[Answer]:
        """Send a whole request and return what will be its answer."""
        if self._complete:  # the parser is made for one answer after another; what we keep is not
            self._headers, self._parts, self._pending = {}, deque(), 0
            self._head_room = MOST_HEAD_BYTES
            self._head_done = self._complete = self._started = False
        self._streaming, self._failure = streaming, None
        self._answer = self._loop.create_future()
        if self._transport is None or self._transport.is_closing():
            self._answer.set_exception(Broken("the connection was closed", before_answer=True))
        else:
            self._transport.write(request)
        return self._answer

    async def read_body(self) -> bytes:
        """Return the rest of a stream's body."""
        return b"".join([part async for part in self._bytes()])

    async def _bytes(self) -> AsyncIterator[bytes]:
        while True:
            while self._parts:
                part = self._parts.popleft()
                self._pending -= len(part)
                if self._paused and self._pending < RESUME_BYTES and self._transport is not None:
                    self._paused = False
                    self._transport.resume_reading()
                yield part
            if self._complete:
                return
            if self._failure is not None:
                raise self._failure
            self._reader = self._loop.create_future()
            await self._reader

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield a stream's lines, however they were cut. Raises Broken."""
        parts: list[bytes] = []
        size = 0
        async for data in self._bytes():
            if b"\n" not in data:
                parts.append(data)
                size += len(data)
                if size > LINE_LIMIT_BYTES:
                    raise Broken("a line without end")
                continue
            first, *rest = data.split(b"\n")
            yield b"".join((*parts, first)) if parts else first
            for line in rest[:-1]:
                yield line
            parts, size = ([rest[-1]], len(rest[-1])) if rest[-1] else ([], 0)

    def fail(self, error: Exception) -> None:
        """End whatever is under way with *error*."""
        self._fail(error)
        self.close()

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def through_proxy(self, address: Address, authority: str) -> None:
        """Have a proxy connect this socket to *address*, and speak TLS from there on."""
        head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        answer = await self.send(head.encode(), streaming=True)
        if answer.code != 200:
            self.close()
            raise Broken(f"the proxy answered {answer.code}", before_answer=True)
        assert self._transport is not None and address.tls is not None
        name = address.server_name or address.host
        upgraded = await self._loop.start_tls(self._transport, self, address.tls, server_hostname=name)
        assert upgraded is not None
        self._transport = upgraded
        self._parser = httptools.HttpResponseParser(self)
        self._complete = True


class Pool:
    """Connections to one address."""

    def __init__(
        self,
        address: Address,
        *,
        limit: int = 100,
        connect_seconds: float = 30.0,
        most_body_bytes: int = 0,
    ) -> None:
        """*most_body_bytes* of an answer that is not a stream are taken; 0 means any number."""
        self._address, self._limit, self._connect_seconds = address, limit, connect_seconds
        self._most_body_bytes = most_body_bytes
        self._loop = asyncio.get_running_loop()
        self._idle: list[Connection] = []
        self._open = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._streams: set[Connection] = set()
        self._closed = False

    async def request(self, data: bytes, *, timeout_seconds: float, repeatable: bool) -> Answer:
        """Send a request and return its answer. Raises Broken, TimeoutError, OSError."""
        while True:
            connection, fresh = await self._take()
            timer = self._loop.call_later(timeout_seconds, connection.fail, TimeoutError("no answer in time"))
            try:
                return await connection.send(data)
            except Broken as error:
                if fresh or not repeatable or not error.before_answer:
                    raise
            except asyncio.CancelledError:
                connection.close()
                raise
            finally:
                timer.cancel()
                self._give_back(connection)

    async def stream(self, data: bytes, *, timeout_seconds: float) -> tuple[Answer, Connection]:
        """Send a request with a streaming response, on its own connection outside of the limit."""
        connection = await self._connect()
        self._streams.add(connection)
        timer = self._loop.call_later(timeout_seconds, connection.fail, TimeoutError("no answer in time"))
        try:
            return await connection.send(data, streaming=True), connection
        except BaseException:
            self.end_stream(connection)
            raise
        finally:
            timer.cancel()

    def end_stream(self, connection: Connection) -> None:
        """Close a stream's connection: the rest of it is not read, so it cannot be used again."""
        self._streams.discard(connection)
        connection.close()

    async def _take(self) -> tuple[Connection, bool]:
        while True:
            now = self._loop.time()
            while self._idle:
                connection = self._idle.pop()
                if connection.open and now - connection.idle_since < IDLE_SECONDS:
                    return connection, False
                self._open -= 1
                connection.close()
            if self._closed:
                raise Broken("the client is closed", before_answer=True)
            if self._open < self._limit:
                self._open += 1
                try:
                    return await self._connect(), True
                except BaseException:
                    self._open -= 1
                    self._wake_one()
                    raise
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                raise

    def _give_back(self, connection: Connection) -> None:
        if connection.reusable and connection.open and not self._closed:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            self._open -= 1
            connection.close()
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _make(self) -> Connection:
        return Connection(self._loop, self._most_body_bytes)

    async def _connect(self) -> Connection:
        address = self._address
        where = address.proxy or (address.host, address.port)
        direct_tls = address.tls if address.proxy is None else None
        async with asyncio.timeout(self._connect_seconds):
            if address.socket:
                return (await self._loop.create_unix_connection(self._make, address.socket))[1]
            _, connection = await self._loop.create_connection(
                self._make,
                *where,
                ssl=direct_tls,
                server_hostname=(address.server_name or address.host) if direct_tls else None,
            )
            if address.proxy is not None and address.tls is not None:
                host = f"[{address.host}]" if ":" in address.host else address.host
                await connection.through_proxy(address, f"{host}:{address.port}")
        return connection

    def close(self) -> None:
        self._closed = True
        for connection in (*self._idle, *self._streams):
            connection.close()
        self._idle.clear()
        while self._waiting:
            self._wake_one()
