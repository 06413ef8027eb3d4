"""In-process transport: calls the server's handler directly.

A request runs through authentication, authorization and admission as from the network; only the sockets are left out.
The handler and its request type are arguments: this module imports no server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Raw

from weir.client.wire import Reply, Unreachable, WatchEvent, read_event

#: method, path, query, headers (lower-case bytes), body -> what the handler takes
MakeRequest = Callable[[str, str, str, Mapping[bytes, bytes], bytes], Any]
#: takes a request, returns an answer with `code` and `headers`, and either `body` or, if it goes on, `run(sink)`
Handle = Callable[[Any], Awaitable[Any]]


_LINE = ""  # instead of the type of a change: a line still to be read


class _Sink:
    """Where a stream writes: lines wait here until they are read."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.over = False
        self.broken = False
        self._size = 0
        self._reader: asyncio.Future[None] | None = None

    def write(self, frame: bytes) -> None:
        self.frames.append(frame)
        self._size += len(frame)
        self._wake()

    def write_chunk(self, chunk: bytes) -> None:
        at = 0
        while at < len(chunk):  # one or more chunks of HTTP/1.1
            end = chunk.index(b"\r\n", at)
            size = int(chunk[at:end], 16)
            if size == 0:
                self.close()
                return
            self.write(chunk[end + 2 : end + 2 + size])
            at = end + 4 + size

    def close(self) -> None:
        self.over = True
        self._wake()

    def abort(self) -> None:
        self.over = self.broken = True
        self._wake()

    @property
    def pending_bytes(self) -> int:
        return self._size

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def read(self) -> bytes | None:
        """Return the next frame, None at the end."""
        while not self.frames:
            await self._wait()
            if self.over and not self.frames:
                return None
        frame = self.frames.popleft()
        self._size -= len(frame)
        return frame

    async def _wait(self) -> None:
        """Return when there is more, or when it is over."""
        if not self.over:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if self.broken:
            raise Unreachable("the server cut the watch off: it was not read fast enough")


class _EventSink(_Sink):
    """Where a watch of the same process delivers its changes, and where they are read."""

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[tuple[str, bytes]] = deque()

    def deliver_event(self, type: str, shown: bytes) -> None:
        """Take one change; *shown* is the object as the API shows it."""
        self._events.append((type, shown))
        self._size += len(shown)
        self._wake()

    def write(self, frame: bytes) -> None:
        """Take what is no change, a bookmark or an error: it comes as a line, as everywhere."""
        self.deliver_event(_LINE, frame)

    def __aiter__(self) -> _EventSink:
        return self

    async def __anext__(self) -> WatchEvent:
        events = self._events
        while not events:
            await self._wait()
            if self.over and not events:
                raise StopAsyncIteration
        type, shown = events.popleft()
        self._size -= len(shown)
        return WatchEvent(type, Raw(shown)) if type != _LINE else read_event(shown)


class LocalTransport:
    """A `weir.client.api.Transport` into a handler of the same process."""

    steady = True

    def __init__(
        self, handle: Handle, make_request: MakeRequest, headers: Mapping[str, str] | None = None
    ) -> None:
        """Set the handler; *headers* are sent with every request, e.g. Authorization."""
        self._handle, self._make_request = handle, make_request
        self._always = _wire(headers or {})
        self._cache: tuple[Mapping[str, str] | None, dict[bytes, bytes]] = (None, self._always)

    def _headers(self, headers: Mapping[str, str] | None) -> dict[bytes, bytes]:
        if headers is not self._cache[0]:  # a client mostly sends the same ones
            self._cache = (headers, {**_wire(headers or {}), **self._always})
        return self._cache[1]

    async def _answer(self, method: str, target: str, headers: Mapping[str, str] | None, body: bytes) -> Any:
        path, _, query = target.partition("?")
        return await self._handle(self._make_request(method, path, query, self._headers(headers), body))

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        answer = await self._answer(method, target, headers, body)
        return Reply(answer.code, answer.body, _Headers(answer.headers or ()))

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str] | None = None, *, silent_seconds: float = 0.0
    ) -> AsyncIterator[tuple[Reply, AsyncIterator[bytes]]]:
        sink = _Sink()
        async with self._stream(target, headers, sink) as reply:
            yield reply, _lines(sink)

    @asynccontextmanager
    async def _stream(
        self, target: str, headers: Mapping[str, str] | None, sink: _Sink
    ) -> AsyncIterator[Reply]:
        answer = await self._answer("GET", target, headers, b"")
        if not hasattr(answer, "run"):
            sink.close()
            yield Reply(answer.code, answer.body, _Headers(answer.headers or ()))
            return
        task = asyncio.ensure_future(answer.run(sink))
        task.add_done_callback(lambda _: sink.close())
        await asyncio.sleep(0)  # as on the network: once the response head is sent, no event may be missed
        try:
            yield Reply(answer.code, b"", _Headers(answer.headers or ()))
        finally:
            sink.abort()
            task.cancel()
            # Do not swallow CancelledError of `await task`: the watching task itself may be cancelled now.
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()

    @asynccontextmanager
    async def events(
        self, target: str, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[Reply, AsyncIterator[WatchEvent]]]:
        """Open a watch that delivers events as objects, not as lines."""
        sink = _EventSink()
        async with self._stream(target, headers, sink) as reply:
            yield reply, sink

    async def close(self) -> None:
        """Nothing to close."""


def _wire(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in headers.items()}


class _Headers(Mapping[str, str]):
    """The headers of an answer as text; made only when read, which is rare."""

    __slots__ = ("_text", "_wire")

    def __init__(self, wire: Sequence[tuple[bytes, bytes]]) -> None:
        self._wire = wire
        self._text: dict[str, str] | None = None

    def _read(self) -> dict[str, str]:
        if self._text is None:
            self._text = {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in self._wire}
        return self._text

    def __getitem__(self, name: str) -> str:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


async def _lines(sink: _Sink) -> AsyncIterator[bytes]:
    rest = b""
    while (frame := await sink.read()) is not None:
        if not rest and frame.endswith(b"\n") and frame.count(b"\n") == 1:
            yield frame
            continue
        *lines, rest = (rest + frame).split(b"\n")
        for line in lines:
            if line:
                yield line
