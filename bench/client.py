"""The client: a list of 5,000 pods, a stream of watch events, and many small requests.

Reading is measured against decoding the same bytes with the standard library's json, requests against aiohttp, in
the same run.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import uvloop

from bench import Figure
from weir.client.api import Client, Reply
from weir.client.cache import Informer, decode_document
from weir.client.http import HttpTransport
from weir.client.kubeconfig import Access
from weir.clock import RealClock

PODS, EVENTS = 5_000, 20_000


class _Pods:
    group, version, plural, namespaced = "", "v1", "pods", True


class View(msgspec.Struct, frozen=True, gc=False):
    """About what a scheduler reads of a pod."""

    metadata: dict[str, Any]
    spec: dict[str, Any]


def _pod(number: int) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "env": [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(25)],
    }
    return {
        "metadata": {
            "name": f"pod-{number:05}",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(number + 100),
            "labels": {"app": "web", "tier": f"t{number % 7}"},
        },
        "spec": {
            "containers": [container],
            "tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}],
        },
        "status": {"phase": "Pending"},
    }


class _Canned:
    """Answers from memory, so that only the client is measured."""

    def __init__(self) -> None:
        pods = [_pod(n) for n in range(PODS)]
        meta = {"resourceVersion": "9000"}
        self.listing = msgspec.json.encode({"kind": "PodList", "metadata": meta, "items": pods})
        self.lines = [
            msgspec.json.encode({"type": "MODIFIED", "object": _pod(n % PODS)}) for n in range(EVENTS)
        ]
        self.done = asyncio.Event()
        self.watched_from = 0.0

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        return Reply(200, self.listing, {})

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str] | None = None, *, silent_seconds: float = 0.0
    ) -> AsyncIterator[tuple[Reply, AsyncIterator[bytes]]]:
        self.watched_from = time.process_time()
        yield Reply(200, b"", {}), self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        for line in self.lines:
            yield line
        self.done.set()
        await asyncio.get_running_loop().create_future()

    async def close(self) -> None: ...


async def _measure(decode: Any) -> tuple[float, float]:
    """Return milliseconds of CPU for the list and microseconds for an event."""
    server = _Canned()
    informer = Informer(Client(server), _Pods(), RealClock(), decode)
    began = time.process_time()
    task = asyncio.create_task(informer.run())
    await server.done.wait()
    listed = server.watched_from
    watched = time.process_time()
    task.cancel()
    return 1e3 * (listed - began), 1e6 * (watched - listed) / EVENTS


async def _plain() -> tuple[float, float]:
    server = _Canned()
    began = time.process_time()
    json.loads(server.listing)
    listed = time.process_time()
    for line in server.lines:
        json.loads(line)
    return 1e3 * (listed - began), 1e6 * (time.process_time() - listed) / EVENTS


STATUS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _Echo(asyncio.Protocol):
    """Answers every request with the same Status, as cheaply as it can."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            _, found, rest = head.partition(b"content-length: ")
            size = int(rest.partition(b"\r")[0]) if found else 0
            if len(self._data) < end + 4 + size:
                return
            self._data = self._data[end + 4 + size :]
            self._transport.write(
                b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(STATUS) + STATUS
            )


def _serve(port: Any) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


async def _cpu_of(requests: int, send: Callable[[], Awaitable[object]]) -> float:
    """Return microseconds of CPU a request costs this process, 32 under way."""

    async def worker() -> None:
        for _ in range(requests // 32):
            await send()

    await worker()
    began = time.process_time()
    await asyncio.gather(*(worker() for _ in range(32)))
    return 1e6 * (time.process_time() - began) / (requests // 32 * 32)


async def _requests(port: int) -> tuple[float, float]:
    url = f"http://127.0.0.1:{port}"
    client = Client(HttpTransport(Access.with_token(url, "token")))
    ours = await _cpu_of(6400, lambda: client.bind("web", "default", "node-1"))
    await client.close()
    binding = {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default"},
        "target": {"kind": "Node", "name": "node-1"},
    }
    async with aiohttp.ClientSession(headers={"authorization": "Bearer token"}) as session:

        async def send() -> None:
            async with session.post(
                f"{url}/api/v1/namespaces/default/pods/web/binding",
                data=msgspec.json.encode(binding),
                headers={"content-type": "application/json"},
            ) as answer:
                msgspec.json.decode(await answer.read())

        theirs = await _cpu_of(3200, send)
    return ours, theirs


def _measure_requests() -> tuple[float, float]:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(there,), daemon=True)
    server.start()
    try:
        return uvloop.run(_requests(here.recv()))
    finally:
        server.kill()


def run() -> list[Figure]:
    """Measure; takes about seven seconds."""
    ours, theirs = _measure_requests()
    plain_list, plain_event = asyncio.run(_plain())
    whole_list, whole_event = asyncio.run(_measure(decode_document))
    view_list, view_event = asyncio.run(_measure(msgspec.json.Decoder(View).decode))
    return [
        Figure("CPU of a small request, against aiohttp", ours, "µs", theirs, theirs / ours),
        Figure("list of 5,000 pods into documents", whole_list, "ms", plain_list, plain_list / whole_list),
        Figure("list of 5,000 pods into views", view_list, "ms", plain_list, plain_list / view_list),
        Figure("a watch event into a document", whole_event, "µs", plain_event, plain_event / whole_event),
        Figure("a watch event into a view", view_event, "µs", plain_event, plain_event / view_event),
    ]
