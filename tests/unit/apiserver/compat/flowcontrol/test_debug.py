"""The debug pages show which requests wait where."""

from __future__ import annotations

import asyncio

from tests.unit.apiserver.compat.flowcontrol.test_dispatcher import JANE, Server
from weir.apiserver.compat.flowcontrol.debug import PREFIX, pages


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]


async def test_levels_queues_and_requests():
    server = Server()
    server.narrow("global-default")
    stuck = asyncio.Event()
    for _ in range(3):
        server.send(JANE, until=stuck)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    shown = {
        path.removeprefix(PREFIX): rows(page()) for path, page in pages(server.flow, lambda: 0.0).items()
    }
    assert ["global-default", "1", "false", "false", "2", "1"] in shown["dump_priority_levels"]
    assert ["catch-all", "0", "true", "false", "0", "0"] in shown["dump_priority_levels"]
    assert shown["dump_queues"][1][:4] == ["global-default", "0", "2", "0"]
    waiting = shown["dump_requests"][1:]
    assert [row[:5] for row in waiting] == [
        ["global-default", "global-default", "0", str(number), "jane"] for number in range(2)
    ]
    assert waiting[0][7:11] == ["jane", "get", "/api/v1/namespaces/a/pods/x", "a"]
    stuck.set()
    await server.all()
