"""A component makes at most its burst at once, and then its rate, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from weir.client.rate_limiter import RateLimiter
from weir.clock import VirtualClock


async def made_after(seconds: list[float], qps: float, burst: int, wanted: int) -> list[int]:
    """Return how many of *wanted* requests were made after each of *seconds*."""
    clock = VirtualClock()
    limiter = RateLimiter(qps, burst, clock)
    made = 0

    async def request() -> None:
        nonlocal made
        await limiter.wait()
        made += 1

    tasks = [asyncio.ensure_future(request()) for _ in range(wanted)]
    found, passed = [], 0.0
    for second in seconds:
        await clock.advance(second - passed)
        passed = second
        found.append(made)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


async def test_a_burst_then_the_rate():
    assert await made_after([0.0, 1.0, 5.0], 20, 30, 1000) == [30, 50, 130]


async def test_no_limit():
    assert await made_after([0.0], 0, 1, 1000) == [1000]


@pytest.mark.parametrize("idle", [1.0, 100.0])
async def test_tokens_are_saved_up_to_the_burst(idle):
    clock = VirtualClock()
    limiter = RateLimiter(10, 5, clock)
    await clock.advance(idle)
    for _ in range(5):
        await limiter.wait()
    waiting = asyncio.ensure_future(limiter.wait())
    await clock.advance(0.05)
    assert not waiting.done()
    await clock.advance(0.05)
    await asyncio.sleep(0)
    assert waiting.done()
