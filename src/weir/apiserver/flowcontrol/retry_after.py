"""Retry-After of rejected requests, adapted to the rejection rate.

As upstream: a level starts with one second; each second, if fewer requests than the current value were rejected
within that many seconds it decreases by one, if at least three times as many it doubles (up to 32), and not again
before that time has passed.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["RetryAfter"]

LONGEST: Final = 32


class RetryAfter:
    """The Retry-After of one level."""

    def __init__(self) -> None:
        self.seconds = 1
        self._second = self._refused = 0  # the second that runs, and how many were refused in it
        self._history: deque[tuple[int, int]] = deque(maxlen=LONGEST)
        self._raised = 0  # when it was last made longer

    def refuse(self, now: float) -> int:
        """Count a rejected request and return its Retry-After."""
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
