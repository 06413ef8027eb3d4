"""How many requests a second may a component make? client-go's token bucket.

A bucket holds *burst* tokens and fills up at *qps* a second; a request takes one, and waits for it when there is none.
Those that wait have reserved theirs: they go in the order they came.
Not here: what the server refuses (weir.client.rest waits when it is asked to come back later).
"""

from __future__ import annotations

from weir.clock import Clock

__all__ = ["RateLimiter"]


class RateLimiter:
    """One bucket; a *qps* of 0 or less is no limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps, self._burst, self._clock = qps, float(burst), clock
        self._tokens = float(burst)
        self._at = clock.monotonic()

    async def wait(self) -> None:
        """Take a token; return when it is there."""
        if self._qps <= 0:
            return
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._qps)
