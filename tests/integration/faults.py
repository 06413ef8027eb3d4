"""What goes wrong between a component and the API server, on purpose: a transport that fails as it is told."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from weir.client.api import Reply, Transport, Unreachable

STATUS = '{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","message":"%s","code":%d}'
REASONS = {404: "NotFound", 409: "Conflict", 500: "InternalError", 503: "ServiceUnavailable"}


class _Pipe:
    """The lines of one watch on their way; what has arrived is read at once, as from a socket."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._over = self._cut = False
        self._failure: BaseException | None = None

    async def fill(self, lines: AsyncIterator[bytes]) -> None:
        try:
            async for line in lines:
                self._lines.append(line)
                self._news.set()
        except Exception as failure:
            self._failure = failure
        finally:
            self._over = True
            self._news.set()

    def cut(self) -> None:
        self._cut = True
        self._news.set()

    async def read(self) -> bytes | None:
        """Return the next line, None at the end."""
        while True:
            if self._cut:
                raise Unreachable("the watch was cut")
            if self._lines:
                return self._lines.popleft()
            if self._failure is not None:
                raise self._failure
            if self._over:
                return None
            self._news.clear()
            await self._news.wait()


class FaultyTransport:
    """A way to the server with bad weather; `bind_faults` are dealt out to bindings one after the other."""

    def __init__(self, inner: Transport, rng: random.Random) -> None:
        self._inner, self._rng = inner, rng
        self.bind_faults: list[Any] = []  # a code, "lost" (done, no answer), "timeout" (not done), or None
        self.slowest_seconds = 0.0
        self.parted = False  #: nothing gets through
        self.bindings: list[str] = []  #: pods whose binding reached the server
        self._watches: set[_Pipe] = set()

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
        pipe = _Pipe()
        self._watches.add(pipe)
        pump = asyncio.ensure_future(pipe.fill(lines))
        try:
            while (line := await pipe.read()) is not None:
                yield line
        finally:
            self._watches.discard(pipe)
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    def cut_watches(self) -> None:
        """Break every watch that is open."""
        for pipe in list(self._watches):
            pipe.cut()

    async def close(self) -> None:
        await self._inner.close()
