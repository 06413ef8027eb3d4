"""A week of 5,000 nodes under virtual time: the story of bench.day, seven times as long and five times as wide.

About 100,000 pods are evicted and placed again. The baseline is ten minutes.
"""

from __future__ import annotations

from bench import Figure
from bench.day import live_through

NODES, HOURS = 5_000, 7 * 24


def run() -> list[Figure]:
    week = live_through(NODES, HOURS)
    return [
        Figure(
            f"a week of {NODES:,} nodes with taint churn",
            week.seconds,
            "s",
            600.0,
            600.0 / week.seconds,
            "at most 600 s",
        ),
        Figure("  of processor time", week.cpu_seconds, "s"),
        Figure("  pods evicted and placed again", week.evictions, "pods"),
        Figure("  nodes that fell silent and came back", week.failures, "nodes"),
        Figure("  memory of the process", week.megabytes, "MB"),
    ]
