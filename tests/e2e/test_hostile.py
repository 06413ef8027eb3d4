"""Hostile connections of every kind beside an ordinary client: memory stays, and everybody else is answered.

Thousands of them for a minute, with a bound on the ordinary client's latency: make hostile.
"""

from __future__ import annotations

import asyncio
import re
import time

from tests.e2e.server import running_server
from tests.hostile import (
    BURST,
    KINDS,
    MOST_GROWTH,
    allow_many_files,
    half_open,
    memory,
    play,
    run,
    unread_body,
)

#: A refused client is read past for 256 KiB, and few bodies of one user are read at a time. Most kinds send megabytes.
MOST_READ = 1 << 20


def test_hostile_connections_take_no_memory_and_keep_nobody_out(tmp_path):
    report = run(10 * len(KINDS), 3.0, tmp_path)
    assert report.growth < MOST_GROWTH
    assert report.seconds, "the ordinary client was never answered"
    assert not report.failures
    assert report.burst == BURST
    assert report.played >= len(KINDS)
    assert report.read_bytes < report.played * MOST_READ


STRANGERS = 1500


async def _most_memory(pid: int, port: int) -> int:
    """Return the server's largest memory under strangers who come at once: one in three stops in its handshake."""
    count = [0]
    until = time.monotonic() + 12
    kinds = [(half_open, False), (unread_body, True), (unread_body, True)]
    strangers = [
        asyncio.create_task(play(*kinds[number % 3], port, until, count)) for number in range(STRANGERS)
    ]
    most = memory(pid)
    while not all(each.done() for each in strangers):
        most = max(most, memory(pid))
        await asyncio.sleep(0.05)
    assert count[0] >= STRANGERS / 3
    return most


def test_strangers_with_unread_bodies_over_tls_take_no_memory(tmp_path):
    allow_many_files()
    grown = []
    for attempt in range(
        3
    ):  # how many bodies are under way at once is up to the machine: the least growth counts
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with running_server(folder, cold=True) as server:
            port = int(re.findall(r"127\.0\.0\.1:(\d+)", (folder / "server.log").read_text())[0])
            idle = memory(server.pid)
            grown.append(asyncio.run(_most_memory(server.pid, port)) - idle)
        if grown[-1] < MOST_GROWTH:
            return
    assert min(grown) < MOST_GROWTH, grown
