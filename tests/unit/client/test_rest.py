"""A component makes at most its burst at once, and then its rate, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from weir.client.api import Client
from weir.client.rest import RateLimiter
from weir.client.wire import Reply
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


class Counting:
    """A transport that answers everything, and counts."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        self.made.append(method)
        return Reply(200, b"{}", {})


async def test_a_limited_client_waits_to_write_and_not_to_read():
    clock, transport = VirtualClock(), Counting()
    client = Client(transport, clock=clock)  # type: ignore[arg-type]
    limited = client.limited(10, 5)
    calls = [limited.call(method, "/x") for method in ["POST"] * 25 + ["GET"] * 25]
    tasks = [
        asyncio.ensure_future(call) for call in (*calls, *(client.call("POST", "/y") for _ in range(25)))
    ]
    await clock.settle()
    assert (transport.made.count("POST"), transport.made.count("GET")) == (5 + 25, 25)
    await clock.advance(1.05)
    assert transport.made.count("POST") == 5 + 25 + 10
    await clock.advance(1)
    await asyncio.gather(*tasks)


async def test_no_rate_is_no_limit():
    clock, transport = VirtualClock(), Counting()
    limited = Client(transport, clock=clock).limited(0, 1)  # type: ignore[arg-type]
    await asyncio.gather(*(limited.call("POST", "/x") for _ in range(100)))
    assert len(transport.made) == 100
