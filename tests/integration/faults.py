"""What goes wrong between a component and the API server, on purpose: a transport that fails as it is told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from weir.client.api import Reply, Transport, Unreachable

STATUS = '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","message":"%s","code":%d}'
REASONS = {404: "NotFound", 409: "Conflict", 500: "InternalError", 503: "ServiceUnavailable"}


class FaultyTransport:
    """A way to the server with bad weather; `bind_faults` are dealt out to bindings one after the other."""

    def __init__(self, inner: Transport, rng: random.Random) -> None:
        self._inner, self._rng = inner, rng
        self.bind_faults: list[Any] = []  # a code, "lost" (done, no answer), "timeout" (not done), or None
        self.slowest_seconds = 0.0
        self.parted = False  #: nothing gets through
        self.bindings: list[str] = []  #: pods whose binding reached the server
        self._watches: set[asyncio.Task[Any]] = set()

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        if self.slowest_seconds:
            await asyncio.sleep(self._rng.random() * self.slowest_seconds)
        if self.parted:
            raise Unreachable("no route to host")
        binding = target.endswith("/binding")
        fault = self.bind_faults.pop() if binding and self.bind_faults else None
        if isinstance(fault, int):
            return Reply(fault, (STATUS % (REASONS[fault], "made up", fault)).encode(), {})
        if fault == "timeout":
            raise Unreachable("timed out")
        if binding:
            self.bindings.append(target.split("/")[-2])
        reply = await self._inner.request(method, target, headers, body)
        if fault == "lost" or self.parted:
            raise Unreachable("connection reset")
        return reply

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str] | None = None, *, silent_seconds: float = 0.0
    ) -> AsyncIterator[tuple[Reply, AsyncIterator[bytes]]]:
        if self.parted:
            raise Unreachable("no route to host")
        async with self._inner.stream(target, headers, silent_seconds=silent_seconds) as (reply, lines):
            yield reply, self._cuttable(lines)

    async def _cuttable(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        iterator = aiter(lines)
        while True:
            task: asyncio.Task[bytes] = asyncio.ensure_future(anext(iterator))  # type: ignore[arg-type]
            self._watches.add(task)
            try:
                yield await task
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                if task.cancelled() and not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                    raise Unreachable("the watch was cut") from None
                task.cancel()
                raise
            finally:
                self._watches.discard(task)

    def cut_watches(self) -> None:
        """Break every watch that is open."""
        for task in list(self._watches):
            task.cancel()

    async def close(self) -> None:
        await self._inner.close()
