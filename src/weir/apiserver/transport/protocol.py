"""HTTP/1.1 on a socket: bytes in, requests out; responses and watch frames back.

An own protocol on httptools instead of a general server: the whole path from a read to `handle` is one callback,
the verified client certificate is at hand, and a watch writes ready chunks straight to the transport. Requests of
one connection are answered in order; pipelined ones wait.
Limits: head and body sizes, the time a request may take to arrive, idle connections. HTTP/2 is never offered.
Not here: what a request means (weir.apiserver.server), listening and TLS (weir.apiserver.run).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from http import HTTPStatus
from typing import Any

import httptools
import msgspec

from weir.apiserver.transport import limits
from weir.apiserver.transport.http import Handler, Request, Response, Stream

__all__ = ["Connections", "HttpProtocol"]

logger = logging.getLogger("weir.apiserver.transport.http")
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: ".encode()
    for status in HTTPStatus
}
_TOO_LARGE = msgspec.json.encode(limits.too_large().status())
_TIMED_OUT = msgspec.json.encode(limits.timed_out().status())
_BAD = b"400 Bad Request"


class Connections:
    """The open connections of a server, so that it can end them."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.open: set[HttpProtocol] = set()
        self.closing = False

    def protocol(self) -> HttpProtocol:
        """Return the protocol of a new connection."""
        return HttpProtocol(self)

    def close_idle(self) -> None:
        """Close connections on which nothing happens, and keep no other open after its answer."""
        self.closing = True
        for connection in tuple(self.open):
            connection.close_when_idle()

    def sweep(self, now: float) -> None:
        """Close connections that are idle too long or send their request too slowly."""
        for connection in tuple(self.open):
            connection.check_time(now)


class HttpProtocol(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_body",
        "_body_size",
        "_certificate",
        "_connections",
        "_head_bytes",
        "_head_size",
        "_headers",
        "_keep_alive",
        "_loop",
        "_parser",
        "_peer",
        "_queue",
        "_since",
        "_sink",
        "_task",
        "_timed_out",
        "_too_large",
        "_transport",
        "_url",
    )

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._parser = httptools.HttpRequestParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._body_size = self._head_size = self._head_bytes = 0
        self._url = b""
        self._too_large = self._timed_out = False
        self._keep_alive = True
        self._queue: deque[tuple[Request, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._sink: _TransportSink | None = None
        self._certificate: bytes | None = None
        self._peer = ""
        self._since = self._loop.time()

    # --------------------------------------------------------------------------------------- transport

    def connection_made(self, transport: Any) -> None:
        """Note who is at the other end."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._certificate = tls.getpeercert(binary_form=True) or None
        self._connections.open.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone: stop working for it."""
        self._connections.open.discard(self)
        if self._sink is not None:
            self._sink.lost = True
        if self._task is not None and not self._task.done():
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(501, b"upgrades are not supported by simulated nodes")
        except httptools.HttpParserError:
            self._refuse(400, _BAD)
        else:
            if self._head_size > limits.HEAD_BYTES and not self._url_done():
                self._refuse(431, b"request header fields too large")

    def _url_done(self) -> bool:
        return self._body_size > 0 or self._task is not None or bool(self._queue)

    def pause_writing(self) -> None:
        """A watch looks at the buffer itself; other answers are written whole."""

    def resume_writing(self) -> None:
        """Nothing waits."""

    # ------------------------------------------------------------------------------------------ parser

    def on_message_begin(self) -> None:
        """A request begins."""
        self._headers = {}
        self._body = []
        self._body_size = self._head_bytes = 0
        self._url = b""
        self._too_large = False
        self._since = self._loop.time()

    def on_url(self, url: bytes) -> None:
        """The request line's target, possibly in pieces."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; of a repeated one the last counts, but every group a user speaks for (impersonation)."""
        self._head_bytes += len(name) + len(value)
        name = name.lower()
        if name in self._headers and name.startswith(b"impersonate-"):
            value = self._headers[name] + b"\n" + value
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """The head is complete."""
        self._head_size = 0
        if self._headers.get(b"expect", b"").lower() == b"100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._head_size = 0
        self._body_size += len(body)
        if self._body_size > limits.BODY_BYTES:
            self._too_large = True
            self._body = []
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """The request is here."""
        self._head_size = 0
        if self._head_bytes > limits.HEAD_BYTES:  # a head that came in one piece with the rest
            self._refuse(431, b"request header fields too large")
            return
        keep = self._parser.should_keep_alive()
        if self._too_large:
            self._keep_alive = False
            self._write(Response(413, _TOO_LARGE), False)
            self._transport.close()
            return
        target, _, query = self._url.partition(b"?")
        if not target.startswith(b"/"):
            target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        request = Request(
            self._parser.get_method().decode(),
            target.decode("latin-1"),
            query.decode("latin-1"),
            self._headers,
            body,
            peer=self._peer,
            peer_certificate=self._certificate,
        )
        if self._task is None:
            self._start(request, keep)
        else:
            self._queue.append((request, keep))
            if len(self._queue) > 100:
                self._transport.pause_reading()

    # --------------------------------------------------------------------------------------- answering

    def _start(self, request: Request, keep: bool) -> None:
        self._task = self._loop.create_task(self._answer(request, keep))

    async def _answer(self, request: Request, keep: bool) -> None:
        try:
            answer = await self._connections.handle(request)
            if isinstance(answer, Stream):
                await self._stream(answer)
                keep = keep and not self._connections.closing and not self._transport.is_closing()
            else:
                keep = keep and not self._connections.closing
                self._write(answer, keep, head_only=request.method == "HEAD")
        except asyncio.CancelledError:
            if not self._timed_out or self._transport.is_closing():
                raise
            self._write(Response(504, _TIMED_OUT), False)
            keep = False
        except Exception:
            logger.exception("answering failed path=%s", request.path)
            keep = False
        finally:
            self._task = None
        self._since = self._loop.time()
        if not keep:
            self._transport.close()
        elif self._queue:
            following, keep = self._queue.popleft()
            if len(self._queue) == 50:
                self._transport.resume_reading()
            self._start(following, keep)

    def _write(self, answer: Response, keep: bool, *, head_only: bool = False) -> None:
        # A webhook may refuse with any code it likes.
        line = _STATUS_LINES.get(answer.code) or b"HTTP/1.1 %d Refused\r\nContent-Type: " % answer.code
        parts = [line, answer.content_type]
        for name, value in answer.headers or ():
            parts += (b"\r\n", name, b": ", value)
        if not keep:
            parts.append(b"\r\nConnection: close")
        parts += (b"\r\nContent-Length: %d\r\n\r\n" % len(answer.body),)
        if not head_only:
            parts.append(answer.body)
        self._transport.write(b"".join(parts))

    async def _stream(self, answer: Stream) -> None:
        parts = [_STATUS_LINES[answer.code], answer.content_type]
        for name, value in answer.headers or ():
            parts += (b"\r\n", name, b": ", value)
        parts.append(b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        self._transport.write(b"".join(parts))
        self._transport.set_write_buffer_limits(high=2**31 - 1)
        self._sink = _TransportSink(self._transport)
        try:
            await answer.run(self._sink)
        finally:
            self._sink = None

    def _refuse(self, code: int, text: bytes) -> None:
        if not self._transport.is_closing():
            self._write(Response(code, text, b"text/plain; charset=utf-8"), False)
            self._transport.close()

    # ------------------------------------------------------------------------------------------- ending

    def close_when_idle(self) -> None:
        """Close now if nothing is being answered."""
        if self._task is None:
            self._transport.close()

    def check_time(self, now: float) -> None:
        """Close if nothing came for too long or a request arrives too slowly; give up answers that take too long."""
        waited = now - self._since
        if self._task is not None:
            if self._sink is None and waited > limits.ANSWER_SECONDS:
                self._timed_out = True
                self._task.cancel()
            return
        arriving = bool(self._url)
        if waited > (limits.ARRIVAL_SECONDS if arriving and self._head_size else limits.IDLE_SECONDS):
            self._transport.close()


class _TransportSink:
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
