"""client-go's token bucket rate limiter.

A bucket holds *burst* tokens and refills at *qps* per second; a request takes one or waits for it, in order of
arrival.
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
