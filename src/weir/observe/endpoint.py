"""Metrics and health pages of a component, over plain HTTP on loopback.

Only GET and HEAD of fixed pages. Requests that are malformed, too long or too slow are dropped, and so are slow
readers; the number of connections is bounded.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from weir.observe import http_server
from weir.observe.http_server import TEXT, Answer, Head, Limits, Refused
from weir.observe.metrics import CONTENT_TYPE

_SLOWEST_SECONDS: Final = 10.0
_MOST_CONNECTIONS: Final = 64


#: What a path answers.
Page = Answer
#: By path; a page that is collected from other processes is a coroutine.
Pages = Mapping[str, Callable[[], "Page | Awaitable[Page]"]]


def pages(metrics: Callable[[], bytes], healthy: Callable[[], bool]) -> Pages:
    """Return the pages every component has: /metrics, and /healthz, /livez and /readyz."""

    def health() -> Page:
        fine = healthy()
        return Page(200, TEXT, b"ok") if fine else Page(500, TEXT, b"not ready")

    return {
        "/metrics": lambda: Page(200, CONTENT_TYPE, metrics()),
        "/healthz": health,
        "/livez": lambda: Page(200, TEXT, b"ok"),
        "/readyz": health,
    }


class PageSite:
    """Pages that anybody may read."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def admit(self, head: Head) -> bool:
        """Return False, since nobody has to prove anything; raises Refused for what is not a reading request."""
        if head.method not in ("GET", "HEAD"):
            raise Refused(405, "method", b"only GET")
        return False

    async def answer(self, head: Head, body: bytes) -> Answer:
        """Return the page at the path of *head*; raises TimeoutError for one that takes too long."""
        page = self._pages.get(head.path)
        if page is None:
            return Answer(404, TEXT, b"404 page not found")
        shown = page()
        if isinstance(shown, Answer):
            return shown
        async with asyncio.timeout(_SLOWEST_SECONDS):
            return await shown

    def refuse(self, refused: Refused, head: Head | None) -> Answer:
        """Return the words of a refusal."""
        return Answer(refused.code, TEXT, refused.text)


def serving(
    pages: Pages, port: int | socket.socket, host: str = "127.0.0.1"
) -> AbstractAsyncContextManager[int]:
    """Serve *pages* while the block runs; gives the port, which is chosen when *port* is 0.

    *port* may be a socket that listens already.
    """
    limits = Limits(
        0, 0, _MOST_CONNECTIONS, 1, _SLOWEST_SECONDS, request_seconds=_SLOWEST_SECONDS, idle_seconds=0
    )
    return http_server.serving(PageSite(pages), limits, host, port)
