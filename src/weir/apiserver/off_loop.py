"""Thread for CPU-bound work on large documents, one piece at a time.

Spec: decision 13. All requests share one event loop, so decoding, defaulting, ownership, validation and rendering of
large documents run on a thread; work on shared state stays on the loop. Users take turns (start-time fair queuing). A
request in progress goes before those not started, so that few large documents are in memory. Without `start` (no
sockets, virtual time) the work runs inline.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any, ParamSpec, TypeVar

__all__ = ["LARGE_BYTES", "OffLoop", "Turn", "is_large"]

#: Documents of this size and more are worked on beside the loop; a large pod has four KiB.
LARGE_BYTES = 16 * 1024
#: With expressions, which are compiled: a page of them takes as long as four pages of anything else.
LARGE_WITH_EXPRESSIONS_BYTES = 4 * 1024
MOST_USERS = 1024  # whose last turn is remembered

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
#: The place of a request in the queue.
Turn = tuple[int, int]
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
