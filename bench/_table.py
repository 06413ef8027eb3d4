"""README's table of speed: `python -m bench --readme` runs its benches and writes it, with the machine and the day.

A Kubernetes' figure stands beside weir's only where the same run measured both with the same client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench import Figure

OPENING, CLOSING = "<!-- python -m bench --readme -->", "<!-- end -->"
BESIDE = "kubernetes"  # the bench whose baselines are a real Kubernetes'


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: words for people, and the figure behind them."""

    words: str
    bench: str
    figure: str


ROWS = (
    *(
        Row(f"{words}, {pods} pods", "kubernetes", f"{words}, {pods} pods")
        for pods in ("uniform", "diverse")
        for words in (
            "created",
            "created and bound on 1,000 nodes",
            "created and bound on 5,000 nodes",
            "list of 5,000",
            "informer of 5,000",
            "events to 20 informers",
            "of Deployments, bound",
            "of Jobs, bound",
            "with claims, bound",
            "5,000 evicted by a taint",
            "1,000 rolled out",
        )
    ),
    Row(
        "memory with 5,000 nodes and 50,000 diverse pods",
        "kubernetes",
        "memory with 5,000 nodes and 50,000 pods, diverse pods",
    ),
    Row("the scheduler's engine alone, 5,000 nodes", "scheduler", "50 classes mixed, 5,000 nodes"),
    Row("the same, 100,000 nodes", "scheduler", "50 classes mixed, 100,000 nodes"),
    Row(
        "a day of 1,000 nodes with taint churn, under virtual time",
        "day",
        "a day of 1,000 nodes with taint churn",
    ),
)


def written(readme: str, machine: str, run: Callable[[str], Sequence[Figure]]) -> str:
    """Return README with its table measured anew."""
    figures: dict[str, Mapping[str, Figure]] = {}
    lines = [
        f"Measured on {machine}; beside Kubernetes by a client on client-go.",
        "",
        "| | weir | Kubernetes 1.37 | ratio |",
        "|---|---|---|---|",
    ]
    for row in ROWS:
        if row.bench not in figures:
            figures[row.bench] = {figure.figure: figure for figure in run(row.bench)}
        figure = figures[row.bench].get(row.figure)
        if figure is not None:
            is_beside = row.bench == BESIDE
            beside = _said(figure.baseline, figure.unit) if is_beside else ""
            ratio = f"{figure.ratio:.1f}" if is_beside and figure.ratio is not None else ""
            lines.append(f"| {row.words} | {_said(figure.value, figure.unit)} | {beside} | {ratio} |")
    between = re.compile(f"(?<={re.escape(OPENING)}\n).*?(?=\n{re.escape(CLOSING)})", re.DOTALL)
    if not between.search(readme):
        raise ValueError(f"README has no place for the table: {OPENING} … {CLOSING}")
    table = "\n".join(lines)
    return between.sub(lambda _: table, readme)


def _said(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    number = f"{value:,.0f}" if value >= 100 else f"{value:,.2g}"
    return {"pods/s": f"{number} pods a second", "1/s": f"{number} a second"}.get(unit, f"{number} {unit}")
