"""How do webhook calls arrive? HTTPS/1.1 with connections that stay open, one JSON document in, one out.

POST of an AdmissionReview to a webhook's path, GET of the health pages, nothing else. What is not HTTP, too long or too
slow is dropped. Open connections are ended on shutdown: an API server keeps using one as long as it is answered, and
would otherwise never turn to the other replica.
Not here: the answers (weir.operator.hooks), the certificate (weir.operator.certificates).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import msgspec

from weir.observe.logs import Log

_LONGEST_HEAD: Final = 64 * 1024
_LONGEST_BODY: Final = 16 * 1024 * 1024
_REQUEST_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 180.0
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


@asynccontextmanager
async def serving(
    review: Review, ready: Callable[[], bool], host: str, port: int, tls: ssl.SSLContext
) -> AsyncIterator[int]:
    """Serve webhooks while the block runs; gives the port, which is chosen when *port* is 0."""
    open_connections: set[asyncio.Task[Any]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            open_connections.add(task)
        try:
            while await _exchange(reader, writer, review, ready):
                pass
        except (
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            TimeoutError,
            OSError,
            asyncio.CancelledError,
        ):
            pass  # gone, not worth an answer, or the end
        finally:
            if task is not None:
                open_connections.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    server = await asyncio.start_server(talk, host, port, ssl=tls, limit=_LONGEST_HEAD)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in list(open_connections):
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, review: Review, ready: Callable[[], bool]
) -> bool:
    """Answer one request; return whether the connection goes on."""
    async with asyncio.timeout(_IDLE_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    try:
        method, path, headers = _read_head(head)
        async with asyncio.timeout(_REQUEST_SECONDS):
            body = await _read_body(reader, headers)
    except _Unusable as error:
        writer.write(_response(error.code, b"", close=True))
        await writer.drain()
        return False
    code, answer = await _answer(method, path, body, review, ready)
    close = headers.get("connection", "").lower() == "close"
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


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunks(reader)
    length = headers.get("content-length", "0")
    if not length.isdecimal():
        raise _Unusable(400)
    if int(length) > _LONGEST_BODY:
        raise _Unusable(413)
    return await reader.readexactly(int(length))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        try:
            size = int((await reader.readline()).split(b";")[0].strip(), 16)
        except ValueError:
            raise _Unusable(400) from None
        if size < 0 or len(body) + size > _LONGEST_BODY:
            raise _Unusable(413)
        if size == 0:
            while (await reader.readline()).strip():
                pass
            return bytes(body)
        body += await reader.readexactly(size)
        await reader.readexactly(2)


def _response(code: int, body: bytes, *, close: bool) -> bytes:
    kind = "application/json" if body.startswith(b"{") else "text/plain; charset=utf-8"
    lines = [
        f"HTTP/1.1 {code} {_PHRASES[code]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        *(["Connection: close"] if close else []),
    ]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body
