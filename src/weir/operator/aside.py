"""Thread for evaluating many expressions, so that other webhook calls are answered meanwhile.

A pod may have 256 extended tolerations, and the table of taints 10,000 rows: comparing all takes seconds. One thread
works them off, one object at a time; work for few comparisons, and all work in virtual time, is done on the loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from weir.clock import Clock, RealClock
from weir.lowering.tolerations import CEL, is_extended

#: How long the loop evaluates before others get a turn.
TURN_SECONDS: Final = 0.02
#: Extended tolerations of one object that the loop holds against all known taints.
FEW: Final = 16

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Aside:
    """One thread, started with the first work for it; it ends with the process, whatever it evaluates."""

    def __init__(self, clock: Clock) -> None:
        self._threaded = isinstance(clock, RealClock)  # virtual time does not wait for threads
        self._queue: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(
        self,
        expressions: bool,
        work: Callable[Arguments, Answer],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Answer:
        """Return what *work* returns, done beside the loop if it evaluates *expressions*."""
        if not expressions or not self._threaded:
            return work(*arguments, **named)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="weir-expressions", daemon=True)
            self._thread.start()
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.put((done, lambda: work(*arguments, **named)))
        return await done

    def stop(self) -> None:
        """Begin nothing more after what is waiting."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread = None

    def _work(self) -> None:
        while (piece := self._queue.get()) is not None:
            done, work = piece
            if done.cancelled():
                continue
            result: Any = None
            error: Exception | None = None
            try:
                result = work()
            except Exception as failure:
                error = failure
            with suppress(RuntimeError):  # the loop is closed
                done.get_loop().call_soon_threadsafe(_settle, done, result, error)


def _settle(done: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


def takes_long(tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether meeting every taint takes *tolerations* long: one is an expression, or many are extended."""
    extended = 0
    for entry in tolerations:
        if entry.get("operator") == CEL or entry.get("expression"):
            return True
        extended += is_extended(entry)
    return extended > FEW


class Turns:
    """Pauses in work on the loop that takes long."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def pause(self) -> None:
        """Let others run if the turn is over."""
        if time.monotonic() - self._began >= TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = time.monotonic()
