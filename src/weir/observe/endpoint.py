"""Metrics and health pages of a component, over plain HTTP on loopback.

Only GET and HEAD of fixed pages. Requests that are malformed, too long or too slow are dropped, and so are slow
readers; the number of connections is bounded.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
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


# ── metrics of several processes on one port: fetches each page and joins the texts ──


_SAMPLE: Final = re.compile(r"([^\s{]+)(?:\{(.*)\})? (\S+)\Z")
_OWN_LABEL: Final = re.compile(r'(?:^|,)component="')
_PATIENCE_SECONDS: Final = 5.0
_MOST_BYTES: Final = 64 << 20


def join(texts: Mapping[str, bytes]) -> bytes:
    """Return the metrics of several components as one text, distinguished by the label `component`.

    A metric that has such a label of its own keeps it. Of a component with several processes (`apiserver-2`), those
    behind the first have their number as the label `instance`.

    >>> hits = b"# HELP hits_total How often.\\n# TYPE hits_total counter\\nhits_total%s 1\\n"
    >>> print(join({"scheduler": hits % b"", "kubelet": hits % b'{code="200"}'}).decode(), end="")
    # HELP hits_total How often.
    # TYPE hits_total counter
    hits_total{component="scheduler"} 1
    hits_total{component="kubelet",code="200"} 1
    >>> join({"apiserver-2": hits % b""}).splitlines()[-1]
    b'hits_total{component="apiserver",instance="2"} 1'
    """
    families: dict[str, list[str]] = {}
    for component, text in texts.items():
        lines: list[str] = []
        fresh = False
        for line in text.decode().splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                fresh = name not in families
                lines = families.setdefault(name, [])
            if line.startswith("#"):
                if fresh:
                    lines.append(line)
            elif found := _SAMPLE.match(line):
                lines.append(_labelled(component, *found.groups()))
    return "".join(f"{line}\n" for name in sorted(families) for line in families[name]).encode()


def _labelled(component: str, name: str, labels: str | None, value: str) -> str:
    component, _, number = component.partition("-")
    own = [] if labels is not None and _OWN_LABEL.search(labels) else [f'component="{component}"']
    instance = [f'instance="{number}"'] if number else []
    return f"{name}{{{','.join([*own, *instance, *([labels] if labels else [])])}}} {value}"


def joined_pages(own: Mapping[str, Callable[[], bytes]], others: Mapping[str, int]) -> Pages:
    """Return what one port serves of all components: /metrics, each one's below it, and health.

    *own* are the components of this process, *others* those that serve their pages on ports of this machine.
    """

    async def one(component: str) -> Page:
        if component in own:
            return Page(200, CONTENT_TYPE, own[component]())
        status, body = await _ask(others[component], "/metrics")
        return Page(status, CONTENT_TYPE, body)

    async def together() -> Page:
        names = [*own, *others]
        found = await asyncio.gather(*map(one, names))
        texts = {name: page.body for name, page in zip(names, found, strict=True) if page.status == 200}
        return Page(200, CONTENT_TYPE, join(texts))

    async def health() -> Page:
        found = await asyncio.gather(*(_ask(port, "/readyz") for port in others.values()))
        bad = [name for name, (status, _) in zip(others, found, strict=True) if status != 200]
        text = f"not ready: {', '.join(bad)}" if bad else "ok"
        return Page(500 if bad else 200, "text/plain; charset=utf-8", text.encode())

    pages: dict[str, Callable[[], Page | Awaitable[Page]]] = {
        "/metrics": together,
        "/healthz": health,
        "/livez": lambda: Page(200, "text/plain; charset=utf-8", b"ok"),
        "/readyz": health,
    }
    return {**pages, **{f"/metrics/{name}": partial(one, name) for name in (*own, *others)}}


async def _ask(port: int, path: str) -> tuple[int, bytes]:
    """Return the status and the body of a page of a neighbour's; 500 of one that does not answer."""
    writer = None
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            page = bytearray()
            while part := await reader.read(64 << 10):
                page += part
                if len(page) > _MOST_BYTES:
                    return 500, b""
            head, _, body = bytes(page).partition(b"\r\n\r\n")
            return int(head.split(b" ", 2)[1]), body
    except (OSError, TimeoutError, IndexError, ValueError):
        return 500, b""
    finally:
        if writer is not None:
            writer.close()
