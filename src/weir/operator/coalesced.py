"""Coalesced async calls: concurrent callers share one run that starts after their call.

A caller that arrives while a run is in progress waits for the next run, because the current one may have read stale
data; all callers that arrive meanwhile share that next run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Coalesced(Generic[T]):
    """Work that several callers share."""

    def __init__(self, act: Callable[[], Awaitable[T]]) -> None:
        self._act = act
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None
        self.runs = 0

    async def __call__(self) -> T:
        """Return what a run gives that begins after this call; raises what it raises."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._run(self._running))
        # One caller who gives up must not end what others wait for.
        return await asyncio.shield(self._next)

    async def _run(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            with suppress(Exception):
                await asyncio.shield(before)
        else:
            await asyncio.sleep(0)  # whoever asks in this very moment comes along
        self._running, self._next = self._next, None
        self.runs += 1
        try:
            return await self._act()
        finally:
            if self._next is None:
                self._running = None
