"""Which actions go together, in which order they begin, and what a failure of one does to the others."""

from __future__ import annotations

import asyncio

import pytest

from weir.client.api import Unreachable
from weir.controllers.runtime.controller import Count, Create, Delete, Patch
from weir.controllers.runtime.worker import REQUESTS_AT_ONCE, at_once, bursts
from weir.errors import Conflict
from weir.objects.kinds import PODS, by_kind

CLAIM = Create(by_kind("v1", "PersistentVolumeClaim"), {})
POD = Create(PODS, {})
GONE = Delete(PODS, "a")
STATUS = Patch(by_kind("apps/v1", "ReplicaSet"), "web", "default", {})


@pytest.mark.parametrize(
    "actions, sizes",
    [
        ([POD] * 500, [1, 2, 4, 8, 16, 32, 64, 128, 245]),
        ([GONE] * 500, [500]),
        ([CLAIM] * 3, [1, 1, 1]),
        ([Delete(by_kind("apps/v1", "ReplicaSet"), "web")] * 2, [1, 1]),
        ([CLAIM, POD, CLAIM, POD], [1, 1, 1, 1]),
        ([POD, POD, POD, STATUS, POD, POD], [1, 2, 1, 1, 1]),
        ([GONE, GONE, POD, POD, Count("refusals")], [2, 1, 1, 1]),
        ([], []),
    ],
)
def test_pods_go_together_and_creations_start_slowly(actions, sizes):
    found = list(bursts(actions))
    assert ([len(burst) for burst in found], [each for burst in found for each in burst]) == (sizes, actions)


async def test_actions_begin_in_their_order_and_only_so_many_are_under_way():
    begun, most, under_way = [], 0, 0

    async def carry_out(number):
        nonlocal most, under_way
        begun.append(number)
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001 * (number % 3))
        under_way -= 1
        return -number

    found = await at_once(range(100), carry_out, asyncio.Semaphore(REQUESTS_AT_ONCE))
    assert (begun, most) == (list(range(100)), REQUESTS_AT_ONCE)
    assert found == [(number, -number) for number in range(100)]


async def test_a_refusal_does_not_keep_the_others_back():
    async def carry_out(number):
        await asyncio.sleep(0)
        if number == 1:
            raise Conflict("no")
        return number

    found = await at_once(range(REQUESTS_AT_ONCE * 2), carry_out, asyncio.Semaphore(REQUESTS_AT_ONCE))
    assert len(found) == REQUESTS_AT_ONCE * 2
    assert [number for number, outcome in found if isinstance(outcome, Conflict)] == [1]


async def test_once_the_server_is_away_no_more_are_begun():
    async def carry_out(number):
        await asyncio.sleep(0)
        if number >= 2:
            raise Unreachable("away")
        return number

    found = await at_once(range(REQUESTS_AT_ONCE * 3), carry_out, asyncio.Semaphore(REQUESTS_AT_ONCE))
    assert len(found) == REQUESTS_AT_ONCE + 2  # two were answered, and two more begun in their place
    assert [number for number, outcome in found if not isinstance(outcome, Unreachable)] == [0, 1]
