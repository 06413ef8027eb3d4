"""Keys that wait for their turn on the timeline, each at most once, as in weir.client.queue."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from weir.client.queue import FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS
from weir.forecast.timeline import Timeline

Reconcile = Callable[[Any], Coroutine[Any, Any, None]]
Failed = Callable[[Any, Exception], None]


class WorkQueue:
    """A work queue whose keys are reconciled one after the other, without workers that wait."""

    def __init__(self, timeline: Timeline, reconcile: Reconcile, failed: Failed) -> None:
        self._timeline, self._reconcile, self._failed = timeline, reconcile, failed
        self._waiting: set[Hashable] = set()
        self._working: set[Hashable] = set()
        self._failures: dict[Hashable, int] = {}
        self._due: dict[Hashable, float] = {}

    def add(self, key: Hashable) -> None:
        """Work on *key* soon."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._timeline.soon(lambda: self._work(key))

    def add_after(self, key: Hashable, seconds: float) -> None:
        """Work on *key* after *seconds*; of several times for one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._timeline.monotonic() + seconds
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        self._timeline.after(seconds, lambda: self._ring(key, due))

    def _ring(self, key: Hashable, due: float) -> None:
        if self._due.get(key) == due:
            del self._due[key]
            self.add(key)

    def _work(self, key: Hashable) -> None:
        self._waiting.discard(key)
        self._working.add(key)
        self._timeline.run(self._attempt(key))

    async def _attempt(self, key: Hashable) -> None:
        try:
            await self._reconcile(key)
        except Exception as error:  # anything: one key must not stop the others
            self._failed(key, error)
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            pause = min(FIRST_RETRY_SECONDS * 2.0 ** min(failures, 60), LONGEST_RETRY_SECONDS)
            self.add_after(key, pause)
        else:
            self._failures.pop(key, None)
        finally:
            self._working.discard(key)
            if key in self._waiting:
                self._timeline.soon(lambda: self._work(key))
