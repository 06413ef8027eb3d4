"""Concurrency of the actions of one reconcile: pods are created with slow start and deleted in parallel.

Creations go in batches of one, two, four, eight …, so that a template the server rejects costs one rejection and not
five hundred. All other actions run in the order given: a status is written after the pods it counts, a StatefulSet's
pod is created after its claims.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeVar

from weir.controllers.runtime.actions import Action, Create, Delete
from weir.controllers.runtime.listers import PODS
from weir.errors import ApiError

#: Of all bursts of one controller. More do not make a server faster, and each has a connection of its own.
REQUESTS_AT_ONCE: Final = 32

A = TypeVar("A")
R = TypeVar("R")


def bursts(actions: Iterable[Action]) -> Iterator[Sequence[Action]]:
    """Yield *actions* in their order, together those that may be under way at once.

    >>> pod = Create(PODS, {})
    >>> [len(burst) for burst in bursts([pod] * 10)], [len(burst) for burst in bursts([Delete(PODS, "a")] * 10)]
    ([1, 2, 4, 3], [10])
    """
    for sort, several in groupby(actions, key=_sort):
        if sort is None:
            for action in several:
                yield (action,)
        elif sort is Delete:
            yield tuple(several)
        else:
            yield from slow_start(tuple(several))


def slow_start(several: Sequence[Action]) -> Iterator[Sequence[Action]]:
    """Yield one, then twice as many each time, up to the last."""
    size, begin = 1, 0
    while begin < len(several):
        yield several[begin : begin + size]
        size, begin = 2 * size, begin + size


def _sort(action: Action) -> type[Create] | type[Delete] | None:
    """Return what an action may go together with; None is with nothing."""
    if isinstance(action, Create) and action.kind is PODS:
        return Create
    return Delete if isinstance(action, Delete) and action.kind is PODS else None


async def at_once(
    actions: Sequence[A], carry_out: Callable[[A], Awaitable[R]], under_way: asyncio.Semaphore
) -> list[tuple[A, R | Exception]]:
    """Carry out *actions* concurrently, started in order; return those started with their results.

    *under_way* is a semaphore shared with other bursts.
    A rejection by the server does not stop the others; when the server cannot be reached no more are started.
    """
    outcomes: dict[int, R | Exception] = {}
    waiting = deque(enumerate(actions))

    async def work() -> None:
        while waiting:
            number, action = waiting.popleft()
            try:
                async with under_way:
                    outcomes[number] = await carry_out(action)
            except Exception as error:  # the others were already sent; the caller handles this failure
                outcomes[number] = error
                if not isinstance(error, ApiError):
                    waiting.clear()

    if len(actions) == 1:
        try:
            return [(actions[0], await carry_out(actions[0]))]
        except Exception as error:
            return [(actions[0], error)]
    async with asyncio.TaskGroup() as group:
        for _ in range(min(REQUESTS_AT_ONCE, len(actions))):
            group.create_task(work())
    return [(actions[number], outcomes[number]) for number in sorted(outcomes)]
