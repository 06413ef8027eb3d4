"""A week of 5,000 nodes under virtual time: the story of bench.day, seven times as long and five times as wide.

Twice: with taints that stay as they are, so that nodes report and fail and pods run; and with taints that change all
day, which evicts about 100,000 pods that are placed again. The baseline is ten minutes for either. What an eviction
costs is the 20 requests that every component makes for it; nodes that are well cost nothing (decision 77).
"""

from __future__ import annotations

from bench import Figure
from bench.day import Day, live_through

NODES, HOURS = 5_000, 7 * 24
MOST_SECONDS = 600.0


def run() -> list[Figure]:
    return [
        *figures(f"a week of {NODES:,} nodes", live_through(NODES, HOURS, churn=False)),
        *figures(f"a week of {NODES:,} nodes with taint churn", live_through(NODES, HOURS)),
    ]


def figures(name: str, week: Day) -> list[Figure]:
    lived = week.cpu_seconds - week.set_up_cpu_seconds
    return [
        Figure(
            name,
            week.seconds,
            "s",
            MOST_SECONDS,
            MOST_SECONDS / week.seconds,
            f"at most {MOST_SECONDS:.0f} s",
        ),
        Figure("  of processor time", week.cpu_seconds, "s"),
        Figure("  of that to set it up", week.set_up_cpu_seconds, "s"),
        Figure("  hours that pass in a second of processor time", HOURS / lived, "h/s"),
        Figure("  pods evicted and placed again", week.evictions, "pods"),
        Figure("  nodes that fell silent and came back", week.failures, "nodes"),
        Figure("  memory of the process", week.megabytes, "MB"),
    ]
