"""Which actions of one round may be under way at once? Pods created one after another, and pods deleted so.

Creations start slowly: one, then two, four, eight …, so that a template the server refuses costs one refusal and not
five hundred; deletions go all together. Everything else goes one after another, in the order the controller gave: a
status is written after the pods it counts, a pod of a StatefulSet is created after its claims.
Whether a pod was created alone or in a burst, the same is recorded, counted and waited for.
Not here: what an action does and what follows from its failure (weir.controllers.runtime.worker).
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
    """Carry *actions* out, some at a time, begun in their order; return those begun with what came of each.

    *under_way* bounds how many are, together with those of other bursts.
    What the server refuses does not keep the others back; once it cannot be asked, no more are begun.
    """
    outcomes: dict[int, R | Exception] = {}
    waiting = deque(enumerate(actions))

    async def work() -> None:
        while waiting:
            number, action = waiting.popleft()
            try:
                async with under_way:
                    outcomes[number] = await carry_out(action)
            except Exception as error:  # the others are under way and cannot be undone: who asked decides
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
