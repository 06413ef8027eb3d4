"""Clocks: real and virtual time.

`RealClock` is the machine's. `VirtualClock` stands still until a test or
simulation advances it: sleepers wake in order of their time, each with the clock at exactly that time, so runs are
fast and reproducible.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Protocol, overload


class Clock(Protocol):
    """The one way components learn the time and wait."""

    def time(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    def steady_time(self) -> float:
        """Seconds since the epoch, by `time` when the clock was made and by `monotonic` since: never set."""

    def now(self) -> datetime:
        """The time of day, in UTC."""

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""


class Moment(datetime):
    """Wall-clock time with a monotonic reading, like Go's time.Time.

    Between two of them the monotonic reading counts, so setting the machine's time has no effect. Against a
    time that was parsed, from an object or a certificate, the wall clock counts.

    >>> before, after = Moment.of(datetime(2026, 1, 1, 10), 5.0), Moment.of(datetime(2026, 1, 1, 11), 7.0)
    >>> after - before, after < before + timedelta(seconds=3), after - datetime(2026, 1, 1, 10)
    (datetime.timedelta(seconds=2), True, datetime.timedelta(seconds=3600))
    """

    elapsed: float | None = None

    @classmethod
    def of(cls, day: datetime, elapsed: float) -> Moment:
        """Return the moment of wall-clock time *day* and monotonic time *elapsed*."""
        made = cls.combine(day.date(), day.timetz())
        made.elapsed = elapsed
        return made

    def __add__(self, by: timedelta) -> Moment:
        found: Moment = super().__add__(by)
        if self.elapsed is not None:
            found.elapsed = self.elapsed + by.total_seconds()
        return found

    __radd__ = __add__

    @overload  # type: ignore[override]
    def __sub__(self, other: timedelta) -> Moment: ...
    @overload
    def __sub__(self, other: datetime) -> timedelta: ...
    def __sub__(self, other: timedelta | datetime) -> Moment | timedelta:
        if isinstance(other, timedelta):
            return self + -other
        if isinstance(other, Moment) and self.elapsed is not None and other.elapsed is not None:
            return timedelta(seconds=self.elapsed - other.elapsed)
        apart: timedelta = datetime.__sub__(self, other)
        return apart

    def __lt__(self, other: datetime) -> bool:  # type: ignore[override]
        return (self - other) < _NO_TIME

    def __le__(self, other: datetime) -> bool:  # type: ignore[override]
        return (self - other) <= _NO_TIME

    def __gt__(self, other: datetime) -> bool:  # type: ignore[override]
        return (self - other) > _NO_TIME

    def __ge__(self, other: datetime) -> bool:  # type: ignore[override]
        return (self - other) >= _NO_TIME


_NO_TIME = timedelta(0)


class RealClock:
    """The machine's clock."""

    def __init__(self) -> None:
        self._steady_offset = self.time() - self.monotonic()

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def steady_time(self) -> float:
        return self._steady_offset + self.monotonic()

    def now(self) -> datetime:
        now = Moment.fromtimestamp(time.time(), UTC)
        now.elapsed = time.monotonic()
        return now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_TURNS_BETWEEN_LOOKS = 256
_BACKDATED: ContextVar[float | None] = ContextVar("backdated", default=None)


class VirtualClock:
    """A clock that moves only when it is advanced.

    >>> clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    >>> async def hour(): await clock.sleep(3600); return clock.now().hour
    >>> async def main():
    ...     task = asyncio.create_task(hour())
    ...     await clock.advance(timedelta(hours=2))
    ...     return await task, clock.now().hour
    >>> asyncio.run(main())
    (1, 2)
    """

    def __init__(
        self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC), *, can_be_set: bool = False
    ) -> None:
        """One that *can_be_set* tells moments as the machine's clock does; its time of day may jump."""
        self._start = self._steady_start = start.timestamp()
        self._can_be_set = can_be_set
        self._first = datetime.fromtimestamp(self._start, UTC)
        if can_be_set:
            self._first = Moment.of(self._first, 0.0)
        self._elapsed = 0.0
        self._now = (
            self._elapsed,
            self._first,
        )  # cached result of `now`, which is called more often than time moves
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        #: Called now and then while time passes or somebody has work to do. What it raises ends the waiting: the one
        #: way out of a cluster in which something goes on and on.
        self.look: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self._start + self.monotonic()

    def monotonic(self) -> float:
        then = _BACKDATED.get()
        return self._elapsed if then is None else then

    def steady_time(self) -> float:
        return self._steady_start + self.monotonic()

    def now(self) -> datetime:
        elapsed = self.monotonic()
        if elapsed != self._now[0]:
            self._now = (elapsed, self._first + timedelta(seconds=elapsed))
        return self._now[1]

    def at(self, elapsed: float) -> datetime:
        """Return the time of day when `monotonic` said *elapsed*."""
        return self._first + timedelta(seconds=elapsed)

    @contextmanager
    def backdated(self, elapsed: float) -> Iterator[None]:
        """For the caller alone it is the time when `monotonic` said *elapsed*.

        For what was due then and is written down only now. Nothing in here may sleep.
        """
        token = _BACKDATED.set(elapsed)
        try:
            yield
        finally:
            _BACKDATED.reset(token)

    def set_by(self, seconds: float) -> None:
        """Set the time of day forward or back; no time passes by that."""
        if not self._can_be_set:
            raise ValueError("this clock cannot be set: make it with can_be_set=True")
        self._start += seconds
        self._first = Moment.of(datetime.fromtimestamp(self._start, UTC), 0.0)
        self._now = (-1.0, self._first)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._count += 1
        heappush(self._sleepers, (self._elapsed + seconds, self._count, waiter))
        await waiter

    @property
    def next_wake_seconds(self) -> float | None:
        """How far away the next sleeper's time is; None when there is no sleeper."""
        while self._sleepers and self._sleepers[0][2].done():
            heappop(self._sleepers)
        return self._sleepers[0][0] - self._elapsed if self._sleepers else None

    async def advance(self, by: timedelta | float) -> None:
        """Let time pass: wake every sleeper due, in order, and let the woken run before time goes on."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if not 0 <= seconds < math.inf:
            raise ValueError(f"time only passes forward, by a number of seconds: {by!r}")
        until = self._elapsed + seconds
        await self.settle()
        while (wait := self.next_wake_seconds) is not None and self._elapsed + wait <= until:
            due, _, waiter = heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            waiter.set_result(None)
            await self.settle()
            self.look()
        self._elapsed = until

    async def settle(self, rounds: int = 50_000) -> None:
        """Let everything that is ready run, without time passing, until nothing is (or for *rounds* turns)."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:  # an event loop that does not show what is ready: turn often enough for most chains
            rounds = min(rounds, 50)
        for turn in range(1, rounds + 1):
            await asyncio.sleep(0)
            if ready is not None and not ready:
                return
            if turn % _TURNS_BETWEEN_LOOKS == 0:
                self.look()
