"""Metrics and health pages of a component, over plain HTTP on loopback.

Only GET and HEAD of fixed pages. Requests that are malformed, too long or too slow are dropped, and so are slow
readers; the number of connections is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, cast

from weir.observe.by_address import ByAddress
from weir.observe.metrics import CONTENT_TYPE

_LONGEST_REQUEST: Final = 16 * 1024
_SLOWEST_SECONDS: Final = 10.0
_MOST_CONNECTIONS: Final = 64


class Page(NamedTuple):
    """What a path answers."""

    status: int
    content_type: str
    body: bytes


#: By path; a page that is collected from other processes is a coroutine.
Pages = Mapping[str, Callable[[], "Page | Awaitable[Page]"]]


def pages(metrics: Callable[[], bytes], healthy: Callable[[], bool]) -> Pages:
    """Return the pages every component has: /metrics, and /healthz, /livez and /readyz."""

    def health() -> Page:
        fine = healthy()
        return Page(200 if fine else 500, "text/plain; charset=utf-8", b"ok" if fine else b"not ready")

    return {
        "/metrics": lambda: Page(200, CONTENT_TYPE, metrics()),
        "/healthz": health,
        "/livez": lambda: Page(200, "text/plain; charset=utf-8", b"ok"),
        "/readyz": health,
    }


async def answer(request: bytes, known: Pages) -> bytes:
    """Return the response to *request*, whole.

    >>> fine = answer(b"GET /livez HTTP/1.1\\r\\n\\r\\n", pages(lambda: b"", lambda: True))
    >>> asyncio.run(fine).splitlines()[0]
    b'HTTP/1.1 200 OK'
    """
    words = request.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return _response(Page(400, "text/plain", b"not an HTTP request"), head=False)
    method, path = words[0], words[1].partition(b"?")[0].decode("latin-1")
    if method not in (b"GET", b"HEAD"):
        return _response(Page(405, "text/plain", b"only GET"), head=False)
    page = known.get(path)
    found = page() if page is not None else Page(404, "text/plain", b"404 page not found")
    if not isinstance(found, Page):
        found = await found
    return _response(found, head=method == b"HEAD")


_PHRASES: Final = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error",
}  # fmt: skip


def _response(page: Page, *, head: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {page.status} {_PHRASES[page.status]}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode("latin-1") + (b"" if head else page.body)


@asynccontextmanager
async def serving(known: Pages, port: int | socket.socket, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Serve *known* while the block runs; gives the port, which is chosen when *port* is 0.

    *port* may be a socket that listens already.
    """

    connections = ByAddress[asyncio.Transport](_MOST_CONNECTIONS)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport = cast(asyncio.Transport, writer.transport)
        peer = str((writer.get_extra_info("peername") or ("",))[0])
        evicted = connections.add(peer, transport)
        if evicted is not None:
            evicted.abort()
        try:
            async with asyncio.timeout(_SLOWEST_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await answer(request, known))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            pass  # gone, or not worth an answer
        finally:
            transport.abort()
            connections.discard(peer, transport)

    if isinstance(port, socket.socket):
        server = await asyncio.start_server(talk, sock=port, limit=_LONGEST_REQUEST)
    else:
        server = await asyncio.start_server(talk, host, port, limit=_LONGEST_REQUEST)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()
