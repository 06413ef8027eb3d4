"""Virtual time passes only when told to, and wakes everybody in order."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from weir.clock import RealClock, VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)


async def test_sleepers_wake_in_order_at_exactly_their_time() -> None:
    clock, woken = VirtualClock(START), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (30, 10, 20, 99)]
    await clock.advance(60)
    assert woken == [(10, 10), (20, 20), (30, 30)] and clock.now() == START + timedelta(seconds=60)
    tasks[3].cancel()


async def test_a_sleeper_that_sleeps_again_is_woken_again_within_the_same_advance() -> None:
    clock, ticks = VirtualClock(START), []

    async def ticker() -> None:
        while True:
            await clock.sleep(1)
            ticks.append(clock.time())

    task = asyncio.create_task(ticker())
    await clock.advance(timedelta(seconds=100))
    task.cancel()
    assert ticks == [START.timestamp() + n for n in range(1, 101)]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = VirtualClock(START)
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    assert clock.next_wake_seconds == 5
    task.cancel()
    await clock.settle()
    assert clock.next_wake_seconds is None


async def test_the_real_clock_is_the_machines() -> None:
    clock = RealClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before and abs(clock.time() - clock.now().timestamp()) < 5


async def test_a_long_chain_of_work_is_over_before_time_moves_on() -> None:
    clock, seen = VirtualClock(START), []

    async def chain() -> None:
        await clock.sleep(1)
        for _ in range(500):
            await asyncio.sleep(0)
        seen.append(clock.monotonic())

    async def later() -> None:
        await clock.sleep(2)

    tasks = [asyncio.create_task(chain()), asyncio.create_task(later())]
    await clock.advance(5)
    await asyncio.gather(*tasks)
    assert seen == [1]
