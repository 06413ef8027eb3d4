"""Thread for CPU-bound work on large documents, one piece at a time.

Spec: decision 13. All requests share one event loop, so decoding, defaulting, ownership, validation and rendering of
large documents run on a thread; work on shared state stays on the loop. Users take turns (start-time fair queuing). A
request in progress goes before those not started, so that few large documents are in memory. Without `start` (no
sockets, virtual time) the work runs inline.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from heapq import heapify, heappop, heappush, heappushpop
from types import coroutine
from typing import Any, NamedTuple, ParamSpec, TypeVar

from weir.apiserver.transport.http import Handler, Request, Response, Stream, Turn
from weir.observe.logs import Log
from weir.observe.metrics import Registry

#: Documents of this size and more are worked on beside the loop; a large pod has four KiB.
LARGE_BYTES = 16 * 1024
#: With expressions, which are compiled: a page of them takes as long as four pages of anything else.
LARGE_WITH_EXPRESSIONS_BYTES = 4 * 1024
MOST_USERS = 1024  # whose last turn is remembered

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
#: What waits: its request's place, its number, its future, its work.
Piece = tuple[Turn, int, asyncio.Future[Any], Callable[[], Any]]


def is_large(body: bytes) -> bool:
    """Return whether reading and judging *body* would hold up others.

    >>> is_large(b"x" * 20_000), is_large(b"x" * 5_000), is_large(b"expression: a" + b" " * 5_000)
    (True, False, True)
    """
    size = len(body)
    return size >= LARGE_BYTES or (size >= LARGE_WITH_EXPRESSIONS_BYTES and b"expression" in body)


class OffLoop:
    """One thread, and the queue before it."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._queue: list[Piece] = []
        self._count = 0  # of pieces
        self._requests = 0
        self._now = 0  # the turn that was served last
        self._last: dict[str, int] = {}  # the last turn of each user
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to work beside the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="weir-large-documents", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; what waits is left."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def turn(self, user: str) -> Turn:
        """Return the place of a new request of *user*: behind one of each other user, not behind all their requests."""
        turn = max(self._now, self._last.get(user, 0)) + 1
        if len(self._last) >= MOST_USERS:
            self._last = {name: at for name, at in self._last.items() if at > self._now}
        self._last[user] = turn
        self._requests += 1
        return turn, self._requests

    async def run(
        self,
        turn: Turn | None,
        work: Callable[Arguments, Answer],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Answer:
        """Return what *work* returns, or raise what it raises; without a turn it is done at once, on the loop."""
        if turn is None or self._thread is None or self._loop is None:
            return work(*arguments, **named)
        done: asyncio.Future[Answer] = self._loop.create_future()
        self._count += 1
        entry: Piece = (turn, self._count, done, partial(work, *arguments, **named))
        with self._wake:
            heappush(self._queue, entry)
            self._wake.notify()
        try:
            return await done
        except asyncio.CancelledError:  # its client is gone: the document must not stay until its turn comes
            with self._wake, suppress(ValueError):
                self._queue.remove(entry)
                heapify(self._queue)
            raise
        finally:
            # what it raised refers to this frame, and the document would stay until cycles are looked for
            del done, entry

    async def run_aside(
        self, work: Callable[Arguments, Answer], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Answer:
        """Return what *work* returns; it leaves the interpreter to others by itself, and needs no turn."""
        if self._thread is None:
            return work(*arguments, **named)
        return await asyncio.to_thread(work, *arguments, **named)

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._stopping:
                    self._wake.wait()
                if self._stopping:
                    return
                (turn, _), _, done, piece = heappop(self._queue)
                self._now = max(self._now, turn)
            if not done.cancelled():
                answer, error = _outcome(piece)
                with suppress(RuntimeError):  # the loop is closed
                    if error is None:
                        done.get_loop().call_soon_threadsafe(_succeed, done, answer)
                    else:
                        done.get_loop().call_soon_threadsafe(_fail, done, error)
                del answer, error
            del done, piece


def _outcome(piece: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return the result or exception of *piece*; a separate frame, to hold no reference to the waiter."""
    try:
        return piece(), None
    except BaseException as error:
        return None, error


def _succeed(done: asyncio.Future[Any], answer: Any) -> None:
    if not done.done():
        done.set_result(answer)


def _fail(done: asyncio.Future[Any], error: BaseException) -> None:
    if not done.done():
        # A RecursionError and the like are the request's own failure; an interpreter that ends is not.
        done.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))


# ── debug mode that measures how long each request blocks the event loop ──
# `Blocking.measured` times each uninterrupted piece of a request, by wall clock and CPU. The longest are kept, the
# metric `weir_apiserver_loop_blocked_seconds` has the distribution, and a piece longer than `LONGEST_SECONDS` of CPU is
# logged. Enabled by `weir apiserver --debug-blocking`; shown at /debug/blocking.


log = Log("weir.apiserver.off_loop")
LONGEST_SECONDS = 0.1
KEPT = 20
_LONGEST_PATH = 200


class Block(NamedTuple):
    """A time in which one request had the loop for itself."""

    cpu_seconds: float
    seconds: float
    method: str
    path: str
    user: str
    body_bytes: int


class Blocking:
    """The worst pieces so far."""

    def __init__(self, registry: Registry | None = None) -> None:
        self._worst: list[Block] = []
        self._seconds = (registry or Registry()).histogram(
            "weir_apiserver_loop_blocked_seconds",
            "How long one request had the event loop for itself without a break, in CPU seconds "
            "(only with --debug-blocking).",
            buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )

    @property
    def worst(self) -> list[Block]:
        """The longest pieces, the longest first."""
        return sorted(self._worst, reverse=True)

    def clear(self) -> None:
        """Forget what was measured so far."""
        self._worst.clear()

    def document(self) -> dict[str, Any]:
        """Return the longest pieces, for the debug page."""
        return {"limitSeconds": LONGEST_SECONDS, "worst": [piece._asdict() for piece in self.worst]}

    def measured(self, handle: Callable[[Request], Coroutine[Any, Any, Response | Stream]]) -> Handler:
        """Return *handle*, measured."""

        def measure(request: Request) -> Awaitable[Response | Stream]:
            return self._drive(request, handle(request))

        return measure

    @coroutine
    def _drive(self, request: Request, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run *work* as `await` would, and time it between its stops."""
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            began, began_cpu = time.perf_counter(), time.thread_time()
            try:
                waits_for = work.send(sent) if thrown is None else work.throw(thrown)
            except StopIteration as end:
                return end.value
            finally:
                self._note(request, time.thread_time() - began_cpu, time.perf_counter() - began)
            thrown = None
            try:
                sent = yield waits_for
            except BaseException as error:
                thrown = error

    def _note(self, request: Request, cpu_seconds: float, seconds: float) -> None:
        self._seconds.child().observe(cpu_seconds)
        if len(self._worst) == KEPT and cpu_seconds <= self._worst[0].cpu_seconds:
            return
        user = getattr(request, "user", None)
        piece = Block(
            cpu_seconds,
            seconds,
            request.method,
            request.path[:_LONGEST_PATH],
            user.name if user is not None else "",
            len(request.body),
        )
        (heappushpop if len(self._worst) == KEPT else heappush)(self._worst, piece)
        if cpu_seconds > LONGEST_SECONDS:
            log.warning(
                "a request held the event loop",
                milliseconds=round(cpu_seconds * 1000),
                method=piece.method,
                path=piece.path,
                user=piece.user,
                bytes=piece.body_bytes,
            )
