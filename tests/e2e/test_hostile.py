"""Hostile connections of every kind beside an ordinary client: memory stays, and everybody else is answered.

Two thousand of them for a minute, with a bound on the ordinary client's latency: make hostile.
"""

from __future__ import annotations

from tests.hostile import KINDS, MOST_GROWTH, run

#: A refused client is read past for 256 KiB, and few bodies of one user are read at a time. Most kinds send megabytes.
MOST_READ = 1 << 20


def test_hostile_connections_take_no_memory_and_keep_nobody_out(tmp_path):
    report = run(10 * len(KINDS), 3.0, tmp_path)
    assert report.growth < MOST_GROWTH
    assert report.seconds, "the ordinary client was never answered"
    assert not report.failures
    assert report.played >= len(KINDS)
    assert report.read_bytes < report.played * MOST_READ
