"""Debug mode that measures how long each request blocks the event loop.

`Blocking.measured` times each uninterrupted piece of a request, by wall clock and CPU. The longest are kept, the
metric `weir_apiserver_loop_blocked_seconds` has the distribution, and a piece longer than `LONGEST_SECONDS` of CPU is
logged. Enabled by `weir apiserver --debug-blocking`; shown at /debug/blocking.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from heapq import heappush, heappushpop
from types import coroutine
from typing import Any, NamedTuple

from weir.apiserver.transport.http import Handler, Request, Response, Stream
from weir.observe.logs import Log
from weir.observe.metrics import Registry

__all__ = ["Blocking", "Piece"]

log = Log("weir.apiserver.blocking")
LONGEST_SECONDS = 0.1
KEPT = 20
_LONGEST_PATH = 200


class Piece(NamedTuple):
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
        self._worst: list[Piece] = []
        self._seconds = (registry or Registry()).histogram(
            "weir_apiserver_loop_blocked_seconds",
            "How long one request had the event loop for itself without a break, in CPU seconds "
            "(only with --debug-blocking).",
            buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )

    @property
    def worst(self) -> list[Piece]:
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
        piece = Piece(
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
