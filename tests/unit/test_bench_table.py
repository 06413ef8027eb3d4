"""README's table of speed is written from what one run measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import Figure
from bench._client_go import Measured, Step
from bench._table import CLOSING, OPENING, ROWS, written
from bench.kubernetes import Workload, figures_of

README = Path(__file__).parents[2] / "README.md"


def figures(bench: str) -> list[Figure]:
    return [
        Figure(row.figure, 1234.5, "s" if row.bench == "day" else "pods/s", 61.7, 20.0)
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
    assert "Measured on 2 cores; beside Kubernetes by a client on client-go.\n" in text
    assert (
        "| created and bound on 1,000 nodes, diverse pods | 1,234 pods a second | 62 pods a second | 20.0 |"
        in text
    )
    assert "| a day of 1,000 nodes with taint churn, under virtual time | 1,234 s |  |  |" in text
    assert text.count(OPENING) == text.count(CLOSING) == 1
    assert text.partition(OPENING)[0] == README.read_text().partition(OPENING)[0]


def test_what_was_not_measured_has_no_line():
    text = written(
        README.read_text(), "2 cores", lambda bench: [] if bench == "kubernetes" else figures(bench)
    )
    assert "diverse pods" not in text.partition(OPENING)[2].partition(CLOSING)[0]


def test_a_readme_without_a_place_for_the_table_is_refused():
    with pytest.raises(ValueError, match="no place for the table"):
        written("# weir\n", "2 cores", figures)


def test_a_workload_of_both_systems_gives_the_median_of_the_rounds_ratios():
    workload = Workload("evictions", "s", 5, Step("evict", 10))
    real = [
        Measured(
            value, 10, {"etcd": 0.001, "kube-apiserver": 0.003}, {"etcd": 90.0, "kube-apiserver": 300.0}, 0.02
        )
        for value in (20.0, 30.0, 10.0)
    ]
    own = [
        Measured(value, 10, {"apiserver": 0.002}, {"apiserver": 130.0}, 0.05) for value in (2.0, 10.0, 2.0)
    ]
    first, spent, *rest = figures_of(workload, real, own)
    assert (first.value, first.baseline, first.ratio) == (2.0, 20.0, 5.0)
    assert first.target == "ratios 3.00 to 10.00, aim 5"
    assert (spent.value, spent.baseline, spent.ratio) == (200.0, 400.0, 2.0)
    assert [(one.figure.strip(), one.value) for one in rest] == [
        ("weir: apiserver", 200.0),
        ("Kubernetes: etcd", 100.0),
        ("Kubernetes: kube-apiserver", 300.0),
        ("memory, all processes", 130.0),
        ("weir: apiserver", 130.0),
        ("Kubernetes: etcd", 90.0),
        ("Kubernetes: kube-apiserver", 300.0),
        ("the generator's part of the machine, weir", 5.0),
        ("the generator's part of the machine, Kubernetes", 2.0),
    ]
