"""HTTP/1.1 protocol of the API server on httptools.

From a read to `handle` is one callback, and a watch writes encoded chunks straight to the transport. Requests of one
connection are answered in order. A request is authenticated by its head: the body of an unauthenticated request is
not read, nor a large one of an unauthorized request; others wait for a slot (weir.apiserver.transport.connections).
Head, framing and trailers are bounded together; trailers are not headers. No HTTP/2, no upgrade. A response is
written in slices, and the next slice or request waits until the reader has taken the previous. When a connection ends
its references are dropped at once, because parser and protocol form a cycle and the collector runs rarely.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import httptools
import msgspec

from weir.apiserver.auth.authn import User, is_health
from weir.apiserver.transport import limits
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import (
    CLOSED,
    JSON,
    TEXT,
    Request,
    Response,
    Stream,
    TransportSink,
    head_of,
    head_of_stream,
)
from weir.apiserver.transport.limits import HeadError, body_length, split_target, target_problem
from weir.errors import Unauthorized

__all__ = ["Connections", "HttpProtocol"]

logger = logging.getLogger("weir.apiserver.transport.http")
_TIMED_OUT = msgspec.json.encode(limits.timed_out().status())
_UNAUTHORIZED = msgspec.json.encode(Unauthorized().status())
_BUSY = msgspec.json.encode(limits.too_many().status())
_BUSY_HEADERS = [(b"Retry-After", b"%d" % limits.RETRY_AFTER_SECONDS)]
_BAD = b"400 Bad Request"
_LONG_HEAD = b"request header fields too large"
#: Headers that say who asks: two of them contradict each other.
_ONLY_ONCE = frozenset(
    {b"authorization", b"impersonate-user", b"impersonate-uid", b"content-length", b"host"}
)


class HttpProtocol(asyncio.BufferedProtocol):
    """One connection."""

    __slots__ = (
        "_body",
        "_body_size",
        "_certificate",
        "_connections",
        "_drained",
        "_expects",
        "_head_bytes",
        "_head_complete",
        "_head_size",
        "_headers",
        "_held",
        "_held_by",
        "_loop",
        "_over",
        "_parser",
        "_paused",
        "_peer",
        "_queue",
        "_reads_body",
        "_request",
        "_since",
        "_sink",
        "_task",
        "_timed_out",
        "_transport",
        "_url",
        "_user",
        "_waits",
        "_whose",
        "over_tls",
    )

    def __init__(self, connections: Connections, whose: Callable[[], bytes | None] | None = None) -> None:
        """*whose* gives the certificate that requests count for, where the way they came says it."""
        self._connections, self._whose = connections, whose
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._parser: httptools.HttpRequestParser | None = None  #: refers back: only while connected
        self._headers: dict[bytes, bytes] = {}
        self._request: Request | None = None
        self._body: list[bytes] = []
        self._body_size = 0
        self._head_bytes = 0  #: bytes of the target and the headers of the request that is arriving
        self._head_size = 0  #: bytes of head, framing and trailers of the request that is arriving
        self._held = 0  #: bytes of bodies this connection has in the account of all connections
        self._held_by = ""  #: in whose name
        self._url = b""
        self._head_complete = False
        self._reads_body = False  #: whoever sent the head is known, and the head announces a body
        self._expects = False  #: the client sends the body once it is told to
        self._waits = False  #: for a place for its large body; until then nothing is read
        self._over = False  #: the last request of this connection is here; what follows is not read
        self._timed_out = False
        self._queue: deque[tuple[Request, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._sink: TransportSink | None = None
        self._certificate: bytes | None = None
        self.over_tls = False
        self._peer = ""
        self._user: User | None = None
        self._paused = False
        self._drained: asyncio.Future[None] | None = None
        self._since = self._loop.time()

    # --------------------------------------------------------------------------------------- transport

    @property
    def since(self) -> float:
        """When something happened last."""
        return self._since

    def connection_made(self, transport: Any) -> None:
        """Note who is at the other end."""
        self._transport, self._parser = transport, httptools.HttpRequestParser(self)
        peer = transport.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
        tls = transport.get_extra_info("ssl_object")
        self.over_tls = tls is not None
        if tls is not None:
            self._certificate = tls.getpeercert(binary_form=True) or None
        self._connections.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone: stop working for it and let go of all it sent."""
        self._connections.closed(self, self._user)
        self._user = None
        if self._sink is not None:
            self._sink.lost = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
        self._over = True
        # parser and TLS transport refer back to the protocol: each such cycle would keep the TLS buffers (256 KiB)
        self._transport, self._parser, self._request = CLOSED, None, None
        self._headers, self._body, self._url = {}, [], b""
        self._queue.clear()
        self._release()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the transport puts what it reads: one place for all connections, empty after every turn."""
        return self._connections.arriving

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what was read, before the next connection is read."""
        self.data_received(self._connections.arriving[:nbytes])

    def data_received(self, data: bytes | memoryview) -> None:
        """Feed the parser."""
        if self._over or self._parser is None:
            self._discard(len(data))
            return
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._stop_reading()  # the request is answered as an ordinary one
        except httptools.HttpParserError:
            self._refuse(400, _BAD)
        else:
            if self._head_size > limits.HEAD_BYTES + self._body_size:
                self._refuse(431, _LONG_HEAD)
        if self._user is None:
            self._connections.received_unproven(self)

    def pause_writing(self) -> None:
        """The reader does not keep up. A watch looks at the buffer itself; other answers wait."""
        self._paused = True

    def resume_writing(self) -> None:
        """The reader took what was written."""
        self._paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # ------------------------------------------------------------------------------------------ parser

    def on_message_begin(self) -> None:
        """A request begins."""
        self._headers, self._body, self._request = {}, [], None
        self._body_size = self._head_bytes = 0
        self._url = b""
        self._head_complete = self._reads_body = False
        if self._task is None:
            self._since = self._loop.time()

    def on_url(self, url: bytes) -> None:
        """The request line's target, possibly in pieces."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; of a repeated one the last counts, but every group a user speaks for (impersonation)."""
        if self._head_complete or self._over:
            return  # a trailer says nothing about who asks or what
        self._head_bytes += len(name) + len(value) + limits.HEADER_BYTES
        if self._head_bytes > limits.HEAD_BYTES:
            self._refuse(431, _LONG_HEAD)
            return
        name = name.lower()
        if name in self._headers:
            if name in _ONLY_ONCE:
                self._refuse(400, b"400 Bad Request: header given twice: " + name)
                return
            if name.startswith(b"impersonate-"):
                value = self._headers[name] + b"\n" + value
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """The head is complete: who sends this request, and may its body come?"""
        self._head_complete = True
        if self._over or self._parser is None:
            return
        if self._head_bytes + len(self._url) > limits.HEAD_BYTES:  # it came in one piece with the rest
            self._refuse(431, _LONG_HEAD)
            return
        path, query = split_target(self._url)
        problem = target_problem(path, query)
        if problem is not None:
            self._refuse(*problem)
            return
        request = self._request = Request(
            self._parser.get_method().decode(),
            path.decode("latin-1"),
            query.decode("latin-1"),
            self._headers,
            peer=self._peer,
            peer_certificate=self._certificate if self._whose is None else self._whose(),
        )
        try:
            length = body_length(self._headers, self._parser.get_http_version())
        except HeadError as error:
            self._request = None
            self._refuse(400, error.text)
            return
        has_body = length != 0
        if not self._is_proven(request):
            if self._over:
                return
            if request.proven is None and len(self._url) > limits.STRANGERS_TARGET_BYTES:
                self._refuse(401, _UNAUTHORIZED, JSON)  # whatever it says
                return
            if has_body:  # whatever the answer is, it does not need the body
                request.unread = not is_health(request.path)
                self._dispatch_last(request)
            return
        if has_body:
            self._expects = self._headers.get(b"expect", b"").lower() == b"100-continue"
            self._reads_body = True
            request.too_large = length is not None and length > limits.BODY_BYTES
            if length is not None and length < limits.LARGE_BODY_BYTES:
                self._ask_for_body()
            else:
                self._take_place(request)

    def _take_place(self, request: Request) -> None:
        """Read a body that is large, or may become so, when it is worth it and its user has a place.

        One that says it is too large is read past as far as it is allowed to be, like one that does not: many clients
        look for an answer only when they have sent all.
        """
        if not self._connections.allows(request):
            request.unread = True
            self._dispatch_last(request)
        elif request.too_large and self._expects:
            self._dispatch_last(request)
        elif self._connections.large.enter(self, self._user):
            self._ask_for_body()
        elif self._connections.large.is_crowded(self._user):
            self._busy()
        else:
            self._waits = True
            self._transport.pause_reading()

    def _ask_for_body(self) -> None:
        if self._expects:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def may_send(self) -> None:
        """There is a place for the large body that waits: read on, or begin what is here already."""
        self._waits = False
        if self._over or self._transport.is_closing():
            return
        self._since = self._loop.time()
        self._ask_for_body()
        self._transport.resume_reading()
        if self._task is None and self._queue:
            self._start(*self._queue.popleft())

    def _is_proven(self, request: Request) -> bool:
        """Whether *request* comes from a known user, who has not too many connections."""
        authenticate = self._connections.authenticate
        if authenticate is None:
            return True
        user = request.proven = authenticate(request)
        if user is None or is_health(request.path):
            return False
        if self._user is None or self._user.name != user.name:
            if self._user is not None:
                self._connections.closed(self, self._user)
                self._user = None
                self._connections.open.add(self)
            if not self._connections.proven(self, user):
                self._busy()
                return False
            self._user = user
        return True

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._over or self._request is None:
            return
        if not self._reads_body:  # the parser sees a body where the head, as it is understood here, has none
            self._request = None
            self._refuse(400, _BAD)
            return
        size = len(body)
        self._head_size -= size
        self._body_size += size
        if self._body_size > limits.BODY_BYTES:
            self._request.too_large = True
            self._dispatch_last(self._request)
        elif self._request.too_large:
            return
        elif not self._receive(size):
            self._busy()
        else:
            self._body.append(body)

    def _receive(self, size: int) -> bool:
        """Take *size* bytes into the account of whose request it is; False when there is no room."""
        if self._held == 0:
            self._held_by = self._user.name if self._user is not None else ""
        if not self._connections.receive(size, self._held_by):
            return False
        self._held += size
        return True

    def on_message_complete(self) -> None:
        """The request is here."""
        if self._over or self._request is None or self._parser is None:
            return
        self._head_size = 0
        request, self._request = self._request, None
        body = self._body
        request.body = body[0] if len(body) == 1 else b"".join(body)
        self._body = []
        keep = self._parser.should_keep_alive()
        if self._task is None and not self._waits:
            self._start(request, keep)
            return
        if len(self._queue) >= limits.MOST_PIPELINED:
            self._refuse(429, b"too many pipelined requests")
            return
        self._queue.append((request, keep))

    def _dispatch_last(self, request: Request) -> None:
        """Answer *request* without (the rest of) its body, then close."""
        self._stop_reading()
        self._body, self._request = [], None
        if self._task is None:
            self._start(request, False)
        else:
            self._queue.append((request, False))

    def _stop_reading(self) -> None:
        self._over = True
        self._body_size = 0

    def _discard(self, size: int) -> None:
        """Read past what is not wanted, within reason: a client that still writes would not see its answer.

        What comes after that stays in the client's hands until the connection is closed.
        """
        self._body_size += size
        if self._body_size > limits.DISCARDED_BYTES and not self._transport.is_closing():
            self._transport.pause_reading()

    def _close(self) -> None:
        """Close, after a moment where the client may still be writing."""
        transport = self._transport
        if self._over and not transport.is_closing():
            if self._task is None and transport.can_write_eof():
                transport.write_eof()
            self._loop.call_later(limits.LINGER_SECONDS, self._end, transport)
        else:
            transport.close()

    def _end(self, transport: Any) -> None:
        """Close; break it if the client still writes, for which a close over TLS would wait half a minute."""
        if self._body_size > limits.DISCARDED_BYTES:
            transport.abort()
        else:
            transport.close()

    # --------------------------------------------------------------------------------------- answering

    def _start(self, request: Request, keep: bool) -> None:
        self._task = self._loop.create_task(self._answer(request, keep))

    async def _answer(self, request: Request, keep: bool) -> None:
        try:
            if self._user is None or not self._connections.divides:
                waiting = self._connections.turns.wait(self._turn(request))
                if waiting is not None:
                    await waiting
            elif self._whose is not None:
                request.line = self._turn(request)
            answer = await self._connections.handle(request)
            if isinstance(answer, Stream):
                await self._stream(answer)
                keep = keep and not self._connections.closing and not self._transport.is_closing()
            else:
                keep = keep and not self._connections.closing
                head_only, size = request.method == "HEAD", answer.size
                if size <= limits.SLICE_BYTES or head_only:
                    self._write(answer, keep, head_only=head_only)
                    if self._paused:
                        await self._send_rest(iter(()), 0)
                else:
                    slices = answer.slices(limits.SLICE_BYTES)
                    self._transport.write(b"".join((head_of(answer, keep), next(slices))))
                    await self._send_rest(slices, answer.own_bytes)
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
            if not self._queue and self._request is None:
                self._release()
        self._since = self._loop.time()
        if self._queue and keep:
            if not self._waits:
                self._start(*self._queue.popleft())
            return
        if not keep or self._over:
            self._close()

    def _turn(self, request: Request) -> str:
        """Return in whose turn *request* is begun: its user's, or that of the component of this machine it is from."""
        if self._whose is not None:
            return "local " + request.headers.get(b"user-agent", b"").decode("latin-1")
        return self._user.name if self._user is not None else ""

    def _write(self, answer: Response, keep: bool, *, head_only: bool = False) -> None:
        """Write an answer that is not large, at once."""
        head = head_of(answer, keep)
        self._transport.write(head if head_only else b"".join((head, answer.body)))

    async def _send_rest(self, slices: Iterator[bytes | memoryview], held: int) -> None:
        """Write what is left of an answer as the reader takes it, and return when it has taken all.

        Until then *held* bytes of memory stay, and the copies of the slice that is being written.
        """
        while not self._paused:
            part = next(slices, None)
            if part is None:
                return
            self._transport.write(part)
        copies = limits.TLS_COPIES if self.over_tls else 1
        self._connections.waits(self, held + copies * limits.SLICE_BYTES)
        try:
            while True:
                while self._paused:
                    self._drained = self._loop.create_future()
                    self._since = self._loop.time()
                    await self._drained
                    self._drained = None
                    self._connections.takes(self)
                part = next(slices, None)
                if part is None or self._transport.is_closing():
                    return
                self._transport.write(part)
        finally:
            self._drained = None
            self._connections.taken(self)

    async def _stream(self, answer: Stream) -> None:
        self._transport.write(head_of_stream(answer))
        self._transport.set_write_buffer_limits(high=2**31 - 1)
        self._sink = TransportSink(self._transport)
        try:
            await answer.run(self._sink)
        finally:
            self._sink = None

    def _refuse(self, code: int, text: bytes, content_type: bytes = TEXT) -> None:
        """End the connection with a text; what is being answered is not."""
        if self._over:
            return  # it has been told
        self._connections.refused(code)
        self._stop_reading()
        if not self._transport.is_closing():
            if self._task is None:
                self._write(Response(code, text, content_type), False)
            self._close()

    def _busy(self) -> None:
        """End the connection: this server has no room for more of it now."""
        self._connections.refused(429)
        self._stop_reading()
        self._body = []
        if self._waits:
            self._waits = False
            self._queue.clear()
        if self._task is None and not self._queue:
            self._release()
        if not self._transport.is_closing():
            if self._task is None:
                self._write(Response(429, _BUSY, headers=_BUSY_HEADERS), False)
            self._close()

    def _release(self) -> None:
        self._connections.release(self._held, self._held_by)
        self._held = 0
        self._connections.large.leave(self)

    # ------------------------------------------------------------------------------------------- ending

    def abort(self) -> None:
        """Break the connection now."""
        self._transport.abort()

    def close_when_idle(self) -> None:
        """Close now if nothing is being answered."""
        if self._task is None:
            self._transport.close()

    def check_time(self, now: float) -> None:
        """Close if nothing came for too long or a request arrives too slowly; give up answers that take too long."""
        waited = now - self._since
        if self._transport.is_closing():
            if waited > limits.SENDING_SECONDS:
                self._transport.abort()  # it does not take the last of its answer
        elif self._task is not None:
            if self._drained is not None:
                if waited > limits.SENDING_SECONDS:
                    self._transport.abort()
            elif self._sink is None and waited > limits.ANSWER_SECONDS:
                self._timed_out = True
                self._task.cancel()
        elif self._waits:
            if waited > limits.PLACE_SECONDS:
                self._busy()
        elif waited > self._read_timeout():
            self._transport.close()

    def _read_timeout(self) -> float:
        """Return for how long nothing may come."""
        if self._head_size > 0 or self._request is not None:
            return limits.ARRIVAL_SECONDS
        if self._user is None and self._connections.authenticate is not None:
            return limits.FIRST_REQUEST_SECONDS
        return limits.IDLE_SECONDS
