"""What lies between an API server and etcd: links that can be cut, fall silent or become slow.

A cut link refuses new connections and breaks those there are, as a host that is gone or a firewall that rejects. A
silent one takes everything and passes nothing on, as a firewall that drops or a cable that was pulled: nobody is told.
A slow one passes everything on later.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum


class State(Enum):
    OPEN = "open"
    CUT = "cut"
    SILENT = "silent"


class Link:
    """A TCP proxy from a port of its own to *target*."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, 0
        self.state, self.delay_seconds = State.OPEN, 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opened = asyncio.Event()
        self._opened.set()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def become(self, state: State, delay_seconds: float = 0.0) -> None:
        """Behave like this from now on, on connections that are there as well."""
        if self.state is State.SILENT and state is State.OPEN:
            self._break()  # what was swallowed is gone: a connection with a hole in it is none
        self.state, self.delay_seconds = state, delay_seconds
        if state is State.CUT:
            self._break()
        if state is State.SILENT:
            self._opened.clear()
        else:
            self._opened.set()

    def _break(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        self._break()
        self._opened.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if self.state is State.CUT:
                return
            await self._opened.wait()
            with contextlib.suppress(OSError):
                there_reader, there = await asyncio.open_connection("127.0.0.1", self.target)
                self._writers.add(there)
                try:
                    async with asyncio.TaskGroup() as both:
                        both.create_task(self._pass_on(reader, there))
                        both.create_task(self._pass_on(there_reader, writer))
                except* OSError:
                    pass
                finally:
                    self._writers.discard(there)
                    there.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes, in its order, each part after the delay that holds when it comes."""
        loop = asyncio.get_running_loop()
        parts: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, part = await parts.get()
                await asyncio.sleep(max(due - loop.time(), 0.0))
                if not part:
                    raise ConnectionResetError("the other end closed")
                if self.state is State.OPEN:
                    writer.write(part)
                    await writer.drain()

        delivering = asyncio.create_task(deliver())
        try:
            while True:
                part = await reader.read(1 << 16)
                parts.put_nowait((loop.time() + self.delay_seconds, part))
                if not part:
                    break
            await delivering
        finally:
            delivering.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await delivering
