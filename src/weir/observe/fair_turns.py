"""Fair turns on one event loop: callers take turns by name (a user, an address), not by arrival.

Spec: decision 14. Only `REQUESTS_A_TURN` start per loop turn; waiting calls start name by name, so that a caller with
few waits for one turn, however many another has. If nothing waits, a call starts at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["REQUESTS_A_TURN", "FairTurns"]

REQUESTS_A_TURN = 8
PAUSE_SECONDS = 0.005  # between looks at whether a call can start


class FairTurns:
    """The requests that are here and not begun, by user."""

    def __init__(self, can_start: Callable[[], bool] = lambda: True) -> None:
        """While *can_start* is False, calls wait."""
        self._can_start = can_start
        self._begun = 0  # in this turn of the loop
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the user whose turn is next first

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def wait(self, user: str) -> asyncio.Future[None] | None:
        """Return what a request of *user* has to wait for; None when it may begin at once."""
        loop = asyncio.get_running_loop()
        if self._begun == 0 and not self._waiting:
            loop.call_soon(self._next_turn, loop)
        if self._begun < REQUESTS_A_TURN and not self._waiting and self._can_start():
            self._begun += 1
            return None
        waiting = loop.create_future()
        self._waiting.setdefault(user, deque()).append(waiting)
        return waiting

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < REQUESTS_A_TURN and self._can_start():
            user = next(iter(self._waiting))
            requests = self._waiting.pop(user)
            first = requests.popleft()
            if requests:
                self._waiting[user] = requests  # behind the others
            if not first.done():  # its client may be gone
                first.set_result(None)
                self._begun += 1
        if self._waiting and not self._begun:
            loop.call_later(PAUSE_SECONDS, self._next_turn, loop)
        elif self._begun:
            loop.call_soon(self._next_turn, loop)
