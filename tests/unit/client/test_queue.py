"""A key is worked on by one worker at a time, once for all the times it was added, and again after failures."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.client.queue import Closed, WorkQueue, work
from weir.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> WorkQueue[str]:
    return WorkQueue(clock)


async def test_a_key_added_twice_is_worked_on_once(queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get(), queue.get_nowait()] == ["a", "b", None]


async def test_a_key_added_while_worked_on_comes_again_after_that(queue: WorkQueue[str]) -> None:
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert queue.get_nowait() is None
    queue.done(key)
    assert queue.get_nowait() == "a"


async def test_a_waiting_worker_gets_the_key_as_soon_as_it_is_added(queue: WorkQueue[str]) -> None:
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await worker == "a"


async def test_a_delayed_key_comes_at_its_time(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("late", 30)
    queue.add_after("early", 10)
    await clock.advance(9.9)
    assert queue.get_nowait() is None
    await clock.advance(0.2)
    assert (queue.get_nowait(), queue.get_nowait(), queue.delayed) == ("early", None, 1)
    await clock.advance(20)
    assert queue.get_nowait() == "late"


async def test_of_several_times_for_a_key_the_earliest_counts(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    for seconds in (30, 10, 20):
        queue.add_after("a", seconds)
    await clock.advance(10)
    assert queue.get_nowait() == "a"
    queue.done("a")
    await clock.advance(60)
    assert queue.get_nowait() is None


async def test_retries_double_up_to_a_limit_until_forgotten(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    pauses = [queue.retry("a") for _ in range(20)]
    assert pauses[:4] == [0.005, 0.01, 0.02, 0.04] and pauses[-1] == 1000.0 and queue.failures("a") == 20
    queue.forget("a")
    assert queue.retry("a") == 0.005


async def test_a_key_that_fails_is_tried_again_and_the_others_go_on(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    done: list[str] = []
    failures: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad" and len(failures) < 3:
            raise RuntimeError("not yet")
        done.append(key)

    worker = asyncio.create_task(work(queue, reconcile, failed=lambda key, error: failures.append(key)))
    for key in ("bad", "good"):
        queue.add(key)
    await clock.advance(1)
    queue.close()
    await worker
    assert (done, failures, queue.failures("bad")) == (["good", "bad"], ["bad"] * 3, 0)


async def test_a_closed_queue_is_emptied_and_then_says_so(queue: WorkQueue[str]) -> None:
    queue.add("a")
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    idle = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.close()
    queue.add("b")
    assert await waiting == "a"
    with pytest.raises(Closed):
        await idle


async def test_a_cancelled_worker_leaves_the_key_to_another(queue: WorkQueue[str]) -> None:
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 60) == "a"


@given(st.lists(st.sampled_from("abcd"), max_size=60), st.integers(1, 4), st.integers(0, 2**32))
@settings(deadline=None)
def test_no_key_is_lost_or_given_to_two_workers(adds: list[str], workers: int, seed: int) -> None:
    async def play() -> None:
        chance = random.Random(seed)
        clock = VirtualClock()
        queue: WorkQueue[str] = WorkQueue(clock)
        dirty: set[str] = set()
        active: set[str] = set()

        async def reconcile(key: str) -> None:
            assert key not in active
            active.add(key)
            dirty.discard(key)
            await clock.sleep(chance.random())
            active.discard(key)
            if chance.random() < 0.3:
                dirty.add(key)
                raise RuntimeError

        tasks = [asyncio.create_task(work(queue, reconcile)) for _ in range(workers)]
        for key in adds:
            dirty.add(key)
            if chance.random() < 0.5:
                queue.add(key)
            else:
                queue.add_after(key, chance.random())
            await clock.advance(chance.random() * 0.3)
        await clock.advance(300)
        assert not dirty and not active and len(queue) == 0
        queue.close()
        await asyncio.gather(*tasks)

    asyncio.run(play())


async def test_others_get_a_turn_between_keys_that_need_nobody():
    queue: WorkQueue[int] = WorkQueue(VirtualClock())
    history: list[str] = []
    for key in range(5):
        queue.add(key)

    async def reconcile(key: int) -> None:
        history.append("key")

    async def other() -> None:
        for _ in range(5):
            history.append("other")
            await asyncio.sleep(0)

    working = asyncio.ensure_future(work(queue, reconcile))
    await other()
    queue.close()
    await working
    assert "key key key" not in " ".join(history) and history.count("key") == 5
