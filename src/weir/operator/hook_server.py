"""How do webhook calls arrive? HTTPS/1.1 with connections that stay open, one JSON document in, one out.

POST of an AdmissionReview to a webhook's path, GET of the health pages, nothing else. What is not HTTP, too long or too
slow is dropped. Nobody shows who they are here, and every pod of a cluster may reach it: connections are bounded by
number, and bodies by the bytes that have arrived of all of them; no address may hold more than is still free, so that
one that sends whatever it can leaves room for an API server.
Open connections are ended on shutdown: an API server keeps using one as long as it is answered, and would otherwise
never turn to the other replica.
Not here: the answers (weir.operator.hooks), the certificate (weir.operator.certificates).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from weir.observe.by_address import ByAddress
from weir.observe.logs import Log

_LONGEST_HEAD: Final = 64 * 1024
_LONGEST_BODY: Final = 16 * 1024 * 1024
_REQUEST_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 180.0
_CLOSE_SECONDS: Final = 5.0
_MOST_CONNECTIONS: Final = 256
_ALL_BODIES: Final = 64 * 1024 * 1024  # of what has arrived and is not answered
_MOST_DIGITS: Final = 15  # of a length
_PIECE: Final = 64 * 1024
_PHRASES: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

Document = dict[str, Any]
Review = Callable[[str, Mapping[str, Any]], Awaitable[Document]]
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_LOG: Final = Log("weir.operator")


class _Unusable(Exception):
    """A request that cannot be answered, with the code that says why."""

    def __init__(self, code: int) -> None:
        self.code = code


class _Room:
    """What the bodies of all connections hold, by address."""

    def __init__(self) -> None:
        self._all = 0
        self._of: dict[str, int] = {}

    def take(self, address: str, size: int) -> None:
        """Take *size* bytes; raises _Unusable when there is no room."""
        held = self._of.get(address, 0) + size
        if held + size + self._all > _ALL_BODIES:
            raise _Unusable(503)
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
        """Read *size* more bytes, as they come; raises _Unusable, IncompleteReadError."""
        if len(self.content) + size > _LONGEST_BODY:
            raise _Unusable(413)
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


@asynccontextmanager
async def serving(
    review: Review, ready: Callable[[], bool], host: str, port: int, tls: ssl.SSLContext
) -> AsyncIterator[int]:
    """Serve webhooks while the block runs; gives the port, which is chosen when *port* is 0."""
    open_connections = ByAddress[asyncio.Task[Any]](_MOST_CONNECTIONS)
    room = _Room()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        address = str((writer.get_extra_info("peername") or ("",))[0])
        evicted = open_connections.add(address, task)
        if evicted is not None:
            evicted.cancel()
        try:
            body = _Body(reader, room, address)
            try:
                while await _exchange(body, reader, writer, review, ready):
                    body.free()
            finally:
                body.free()
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            TimeoutError,
            OSError,
            asyncio.CancelledError,
        ):
            pass  # gone, not worth an answer, or the end
        finally:
            open_connections.discard(address, task)
            writer.close()
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(writer.wait_closed(), _CLOSE_SECONDS)
            writer.transport.abort()  # a reader that does not take its answer

    server = await asyncio.start_server(talk, host, port, ssl=tls, limit=_LONGEST_HEAD)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        tasks = list(open_connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _exchange(
    body: _Body,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    review: Review,
    ready: Callable[[], bool],
) -> bool:
    """Answer one request; return whether the connection goes on."""
    async with asyncio.timeout(_IDLE_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    try:
        method, path, headers = _read_head(head)
        async with asyncio.timeout(_REQUEST_SECONDS):
            await _read_body(body, reader, headers)
    except _Unusable as error:
        writer.write(_response(error.code, b"", close=True))
        await writer.drain()
        return False
    code, answer = await _answer(method, path, bytes(body.content), review, ready)
    close = headers.get("connection", "").lower() == "close"
    async with asyncio.timeout(_REQUEST_SECONDS):
        writer.write(_response(code, answer, close=close))
        await writer.drain()
    return not close


async def _answer(
    method: str, path: str, body: bytes, review: Review, ready: Callable[[], bool]
) -> tuple[int, bytes]:
    if method == "GET":
        if path == "/livez":
            return 200, b"ok"
        if path in ("/healthz", "/readyz"):
            return (200, b"ok") if ready() else (503, b"not ready")
        return 404, b"404 page not found"
    if method != "POST":
        return 405, b"only GET and POST"
    if not ready():
        return 503, b"weir does not know the cluster yet"
    try:
        document = _decode(body)
        request = document.get("request")
        if not isinstance(request, dict):
            return 400, b"not an AdmissionReview"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 400, b"not an AdmissionReview"
    try:
        return 200, _encode(await review(path, document))
    except Exception as error:  # anything: the API server must get an answer, and the log the reason
        _LOG.exception("A webhook call failed", path=path)
        return 500, str(error).encode()


def _read_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Unusable(400)
    headers = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon:
            raise _Unusable(400)
        headers[name.strip().lower()] = value.strip()
    return words[0], words[1].partition("?")[0], headers


async def _read_body(body: _Body, reader: asyncio.StreamReader, headers: Mapping[str, str]) -> None:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        await _read_chunks(body, reader)
        return
    length = headers.get("content-length", "0")
    if not length.isdecimal():
        raise _Unusable(400)
    if len(length) > _MOST_DIGITS:
        raise _Unusable(413)
    await body.read(int(length))


async def _read_chunks(body: _Body, reader: asyncio.StreamReader) -> None:
    trailers = 0
    while True:
        try:
            size = int((await reader.readline()).split(b";")[0].strip(), 16)
        except ValueError:
            raise _Unusable(400) from None
        if size < 0:
            raise _Unusable(413)
        if size == 0:
            break
        await body.read(size)
        await reader.readexactly(2)
    while True:
        try:
            line = await reader.readline()
        except ValueError:  # longer than a head
            raise _Unusable(400) from None
        trailers += len(line)
        if trailers > _LONGEST_HEAD:
            raise _Unusable(400)
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
