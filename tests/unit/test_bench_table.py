"""README's table of speed is written from what one run measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import Figure
from bench._table import CLOSING, OPENING, ROWS, written

README = Path(__file__).parents[2] / "README.md"


def figures(bench: str) -> list[Figure]:
    return [
        Figure(row.figure, 1234.5, "s" if row.bench in ("living", "day") else "pods/s", 61.7, 20.0)
        for row in ROWS
        if row.bench == bench
    ]


def test_each_bench_runs_once_and_kubernetes_stands_beside_only_where_it_ran():
    ran = []

    def run(bench: str) -> list[Figure]:
        ran.append(bench)
        return figures(bench)

    text = written(README.read_text(), "2 cores", run)
    assert len(ran) == len(set(ran))
    assert "Measured on 2 cores.\n" in text
    assert "| pods created and bound, 1,000 nodes, TLS | 1,234 pods a second | 62 pods a second |" in text
    assert "| 10,000 pods evicted by one taint | 1,234 s |  |" in text
    assert text.count(OPENING) == text.count(CLOSING) == 1
    assert text.partition(OPENING)[0] == README.read_text().partition(OPENING)[0]


def test_what_was_not_measured_has_no_line():
    text = written(
        README.read_text(), "2 cores", lambda bench: [] if bench == "kubernetes" else figures(bench)
    )
    assert "durable pod creates" not in text.partition(OPENING)[2].partition(CLOSING)[0]


def test_a_readme_without_a_place_for_the_table_is_refused():
    with pytest.raises(ValueError, match="no place for the table"):
        written("# weir\n", "2 cores", figures)
