"""Virtual time as a heap of due callbacks, for components that run without an event loop.

Callbacks that are ready run in the order they were added, and time moves on only when none is left. Coroutines of the
components are run in place: one that never sleeps has ended when `run` returns, one that sleeps goes on at its time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from datetime import datetime
from heapq import heappop, heappush
from typing import Any, Final

from weir.clock import VirtualClock

Callback = Callable[[], object]
_CALLBACKS_BETWEEN_LOOKS: Final = 256


class _Sleep:
    """Suspends a coroutine; what drives it is given the seconds."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        yield self.seconds


class Timeline(VirtualClock):
    """The clock of a forecast, and what is due when."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self._ready: deque[Callback] = deque()
        self._due: list[tuple[float, int, Callback]] = []
        self._added = 0

    async def sleep(self, seconds: float) -> None:
        """Suspend the coroutine that `run` drives."""
        await _Sleep(seconds)

    def soon(self, callback: Callback) -> None:
        """Call *callback* when all that is ready before it has run."""
        self._ready.append(callback)

    def after(self, seconds: float, callback: Callback) -> None:
        """Call *callback* when *seconds* have passed."""
        if seconds <= 0:
            self._ready.append(callback)
            return
        self._added += 1
        heappush(self._due, (self._elapsed + seconds, self._added, callback))

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine until it ends, or until it sleeps; then it goes on by itself."""
        try:
            seconds = work.send(None)
        except StopIteration:
            return
        self.after(seconds or 0.0, lambda: self.run(work))

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return what a coroutine returns that must not sleep."""
        try:
            work.send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError("a call of a forecast waited for time to pass")

    def run_ready(self) -> None:
        """Run what is ready, and what becomes ready meanwhile, without time passing."""
        ready, left = self._ready, _CALLBACKS_BETWEEN_LOOKS
        while ready:
            ready.popleft()()
            left -= 1
            if not left:
                self.look()
                left = _CALLBACKS_BETWEEN_LOOKS

    def pass_time(self, seconds: float) -> None:
        """Let time pass: everything due happens at its time."""
        until = self._elapsed + seconds
        self.run_ready()
        while self._due and self._due[0][0] <= until:
            at = self._due[0][0]
            self._elapsed = max(self._elapsed, at)
            while self._due and self._due[0][0] == at:  # what happens at one instant goes together
                self._ready.append(heappop(self._due)[2])
            self.run_ready()
            self.look()
        self._elapsed = until
