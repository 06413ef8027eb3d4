"""Metrics of several processes on one port: fetches each page and joins the texts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from weir.observe.endpoint import Page, Pages
from weir.observe.metrics import CONTENT_TYPE

__all__ = ["join", "joined_pages"]

_SAMPLE: Final = re.compile(r"([^\s{]+)(?:\{(.*)\})? (\S+)\Z")
_OWN_LABEL: Final = re.compile(r'(?:^|,)component="')
_PATIENCE_SECONDS: Final = 5.0
_MOST_BYTES: Final = 64 << 20


def join(texts: Mapping[str, bytes]) -> bytes:
    """Return the metrics of several components as one text, distinguished by the label `component`.

    A metric that has such a label of its own keeps it.

    >>> hits = b"# HELP hits_total How often.\\n# TYPE hits_total counter\\nhits_total%s 1\\n"
    >>> print(join({"scheduler": hits % b"", "kubelet": hits % b'{code="200"}'}).decode(), end="")
    # HELP hits_total How often.
    # TYPE hits_total counter
    hits_total{component="scheduler"} 1
    hits_total{component="kubelet",code="200"} 1
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
    if labels is not None and _OWN_LABEL.search(labels):
        return f"{name}{{{labels}}} {value}"
    return f'{name}{{component="{component}"{"," + labels if labels else ""}}} {value}'


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
