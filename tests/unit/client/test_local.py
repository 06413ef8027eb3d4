"""A client in the server's own process lets go of a watch, and of itself."""

from __future__ import annotations

import asyncio

import pytest

from weir.apiserver.transport.http import Request, Stream
from weir.client.api import Unreachable
from weir.client.local import LocalTransport


async def test_who_is_told_to_end_while_a_watch_is_let_go_of_ends():
    """A watch breaks, and before it is let go of its reader is cancelled: it must not go on and watch again."""
    ending, ended = asyncio.Event(), asyncio.Event()

    async def run(sink):
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await ended.wait()

    async def handle(request: Request) -> Stream:
        return Stream(run)

    async def watch_again():
        for _ in range(3):
            try:
                async with LocalTransport(handle, Request).stream("/api/v1/pods?watch=true"):
                    raise Unreachable("the watch was cut")
            except Unreachable:
                await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch_again())
    await ending.wait()
    watching.cancel()
    ended.set()
    with pytest.raises(asyncio.CancelledError):
        await watching
