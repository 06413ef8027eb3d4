"""The client: a list of 5,000 pods and a stream of watch events, from bytes on the wire to objects in a cache.

Measured against decoding the same bytes with the standard library's json, in the same run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bench import Figure
from weir.client.api import Client, Reply
from weir.client.cache import Informer, decode_document
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


def run() -> list[Figure]:
    """Measure; takes about five seconds."""
    plain_list, plain_event = asyncio.run(_plain())
    whole_list, whole_event = asyncio.run(_measure(decode_document))
    view_list, view_event = asyncio.run(_measure(msgspec.json.Decoder(View).decode))
    return [
        Figure("list of 5,000 pods into documents", whole_list, "ms", plain_list, plain_list / whole_list),
        Figure("list of 5,000 pods into views", view_list, "ms", plain_list, plain_list / view_list),
        Figure("a watch event into a document", whole_event, "µs", plain_event, plain_event / whole_event),
        Figure("a watch event into a view", view_event, "µs", plain_event, plain_event / view_event),
    ]
