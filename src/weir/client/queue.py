"""Work queue with client-go's semantics: no duplicates, one worker per key, delays and backoff.

A key added while queued is one entry; added while processed, it is queued again afterwards. Time is the clock's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from weir.clock import Clock

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_SECONDS = 0.005
LONGEST_RETRY_SECONDS = 1000.0


class Closed(Exception):
    """The queue is closed and empty."""


class Meter(Protocol):
    """Metrics of a queue."""

    def added(self) -> None:
        """A key waits for a worker."""

    def retried(self) -> None:
        """A key failed and is retried."""

    def taken(self, waited_seconds: float) -> None:
        """A worker has a key that waited so long."""

    def done(self, worked_seconds: float) -> None:
        """The work on a key took so long."""


class WorkQueue(Generic[K]):
    """Keys waiting for a worker."""

    def __init__(
        self,
        clock: Clock,
        *,
        first_retry_seconds: float = FIRST_RETRY_SECONDS,
        longest_retry_seconds: float = LONGEST_RETRY_SECONDS,
        meter: Meter | None = None,
    ) -> None:
        self._clock, self._meter = clock, meter
        self._since: dict[K, float] = {}  # when keys began to wait; kept only for a meter
        self._first_retry, self._longest_retry = first_retry_seconds, longest_retry_seconds
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()  # in the queue, or to come again
        self._working: dict[K, float] = {}  # and since when
        self._failures: dict[K, int] = {}
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}  # the earliest time each delayed key is wanted
        self._count = 0
        self._takers: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = float("inf")
        self._closed = False

    def __len__(self) -> int:
        """How many keys wait for a worker now."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._due)

    def working_seconds(self) -> list[float]:
        """Return for how long each key that is being worked on has been."""
        now = self._clock.monotonic()
        return [now - begun for begun in self._working.values()]

    # ----------------------------------------------------------------------------------------------- adding

    def add(self, key: K) -> None:
        """Work on *key* soon."""
        if self._closed or key in self._waiting:
            return
        self._waiting.add(key)
        if self._meter is not None:
            self._meter.added()
            self._since[key] = self._clock.monotonic()
        if key not in self._working:
            self._ready.append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Work on *key* after *seconds*; of several times for one key the earliest counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        self._count += 1
        heappush(self._later, (due, self._count, key))
        self._set_alarm()

    def retry(self, key: K) -> float:
        """Work on *key* again after a pause that doubles with every failure; return the pause in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self._meter is not None:
            self._meter.retried()
        pause = min(self._first_retry * 2.0 ** min(failures, 60), self._longest_retry)
        self.add_after(key, pause)
        return pause

    def forget(self, key: K) -> None:
        """*key* went well: its next failure is its first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often *key* has failed in a row."""
        return self._failures.get(key, 0)

    # ---------------------------------------------------------------------------------------------- working

    async def get(self) -> K:
        """Return the next key; call `done` with it afterwards. Raises Closed."""
        while not self._ready:
            if self._closed:
                raise Closed
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker in self._takers:
                    self._takers.remove(taker)
                elif taker.done() and not taker.cancelled():
                    self._wake()  # what woke us is for another worker now
                raise
        return self._take()

    def get_nowait(self) -> K | None:
        """Return the next key if there is one."""
        return self._take() if self._ready else None

    def _take(self) -> K:
        key = self._ready.popleft()
        self._waiting.discard(key)
        now = self._working[key] = self._clock.monotonic()
        if self._meter is not None:
            self._meter.taken(now - self._since.pop(key, now))
        return key

    def done(self, key: K) -> None:
        """Mark *key* as processed; it is queued again if it was added meanwhile."""
        begun = self._working.pop(key, None)
        if self._meter is not None and begun is not None:
            self._meter.done(self._clock.monotonic() - begun)
        if key in self._waiting:
            self._ready.append(key)
            self._wake()

    def close(self) -> None:
        """Take no more keys; workers finish what is ready and then see Closed."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        while self._takers:
            self._wake()

    # ----------------------------------------------------------------------------------------------- timing

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _set_alarm(self) -> None:
        due = self._later[0][0]
        if due >= self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = due
        self._alarm = asyncio.ensure_future(self._ring(due))

    async def _ring(self, due: float) -> None:
        await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
        self._alarm, self._alarm_at = None, float("inf")
        now = self._clock.monotonic()
        while self._later and self._later[0][0] <= now:
            due, _, key = heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        if self._later:
            self._set_alarm()


async def work(
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[None]],
    *,
    failed: Callable[[K, Exception], None] | None = None,
) -> None:
    """Process keys until the queue is closed; a key that fails is retried with backoff.

    Yields to the event loop after every key: an in-process server answers without waiting, and ten thousand keys
    would otherwise block everything else.
    """
    while True:
        try:
            key = await queue.get()
        except Closed:
            return
        try:
            await reconcile(key)
        except Exception as error:  # anything: one key must not stop the others
            if failed is not None:
                failed(key, error)
            queue.retry(key)
        else:
            queue.forget(key)
        finally:
            queue.done(key)
        await asyncio.sleep(0)
