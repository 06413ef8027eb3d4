"""After how many seconds may a refused client ask again? The more are refused, the later.

As upstream: a level begins with one second; when a second begins, and in as many seconds as it says now fewer than
that many requests were refused, it says one second less, when at least three times as many, twice as long (up to 32),
but not again before that time is over.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["RetryAfter"]

LONGEST: Final = 32


class RetryAfter:
    """What the refused of one level are told."""

    def __init__(self) -> None:
        self.seconds = 1
        self._second = self._refused = 0  # the second that runs, and how many were refused in it
        self._history: deque[tuple[int, int]] = deque(maxlen=LONGEST)
        self._raised = 0  # when it was last made longer

    def refuse(self, now: float) -> int:
        """Note that a request is refused and return what it is told."""
        second = int(now)
        if second != self._second:
            self._history.append((self._second, self._refused))
            self._second, self._refused = second, 0
            self._adapt(second)
        self._refused += 1
        return self.seconds

    def _adapt(self, second: int) -> None:
        lately = sum(count for then, count in self._history if second - then <= self.seconds)
        if lately < self.seconds and self.seconds > 1:
            self.seconds -= 1
        elif lately >= 3 * self.seconds and second - self._raised >= self.seconds:
            self._raised = second
            self.seconds = min(2 * self.seconds, LONGEST)
