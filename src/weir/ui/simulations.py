"""Simulations that run for the page: how far each is, and ending it.

The page names a question by an id of its own, asks how far it is and may cancel it while the request waits for the
answer. One runs at a time; the other screens do not wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_MOST: Final = 64
_LOOK_SECONDS: Final = 0.1


class Cancelled(Exception):
    """The page does not want the answer any more."""


@dataclass
class Simulation:
    """One question that is being simulated."""

    done: int = 0
    total: int = 0
    stage: str = ""  #: what is counted, where that changes
    cancelled: bool = False

    def tick(self, done: int, total: int, stage: str = "") -> None:
        """Note how far it is; raises Cancelled."""
        self.done, self.total, self.stage = done, total, stage
        if self.cancelled:
            raise Cancelled


class Simulations:
    """The simulations of one server."""

    def __init__(self) -> None:
        self._by_id: dict[str, Simulation] = {}
        self._turn = threading.Lock()

    @contextmanager
    def run(self, name: str) -> Iterator[Callable[..., None]]:
        """Wait for the turn of the question *name*, and yield its `tick`. Raises Cancelled."""
        simulation = self._of(name)
        try:
            while not self._turn.acquire(timeout=_LOOK_SECONDS):
                simulation.tick(0, 0)
            try:
                simulation.tick(0, 0)
                yield simulation.tick
            finally:
                self._turn.release()
        finally:
            self._by_id.pop(name, None)

    def progress(self, name: str) -> Simulation:
        """Return how far a question is; one that nobody knows has not begun or is over."""
        return self._by_id.get(name) or Simulation()

    def cancel(self, name: str) -> None:
        """End a question, now or when it begins: requests may overtake each other."""
        self._of(name).cancelled = True

    def _of(self, name: str) -> Simulation:
        while len(self._by_id) >= _MOST:
            del self._by_id[next(iter(self._by_id))]
        return self._by_id.setdefault(name, Simulation())
