"""Work that many share, and nobody gets an answer that began before the question."""

from __future__ import annotations

import asyncio

import pytest

from weir.operator.coalesced import Coalesced


def test_who_asks_at_once_shares_a_run_and_who_asks_later_gets_the_next():
    async def story():
        gate, log = asyncio.Event(), []

        async def act():
            log.append(len(log))
            mine = log[-1]
            await gate.wait()
            return mine

        shared = Coalesced(act)
        first = [asyncio.ensure_future(shared()) for _ in range(3)]
        while not log:
            await asyncio.sleep(0)
        later = [asyncio.ensure_future(shared()) for _ in range(3)]
        await asyncio.sleep(0)
        assert log == [0], "the next waits for this one"
        gate.set()
        return await asyncio.gather(*first), await asyncio.gather(*later), shared.runs

    assert asyncio.run(story()) == ([0, 0, 0], [1, 1, 1], 2)


def test_a_failure_is_everybodys_and_the_next_run_is_new():
    async def story():
        outcomes = iter([ValueError("no"), None])

        async def act():
            error = next(outcomes)
            if error is not None:
                raise error
            return "yes"

        shared = Coalesced(act)
        failed = await asyncio.gather(shared(), shared(), return_exceptions=True)
        return [str(error) for error in failed], await shared()

    assert asyncio.run(story()) == (["no", "no"], "yes")


def test_one_who_gives_up_does_not_end_it_for_the_others():
    async def story():
        gate = asyncio.Event()

        async def act():
            await gate.wait()
            return 1

        shared = Coalesced(act)
        one, other = asyncio.ensure_future(shared()), asyncio.ensure_future(shared())
        await asyncio.sleep(0)
        one.cancel()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await one
        return await other

    assert asyncio.run(story()) == 1
