"""What does one more pod cost as the cluster grows? From 500 to 100,000 nodes, and the picture of it.

The baseline is the plain loop over all nodes, measured at 500 nodes and scaled by their number.
`python -m bench.scheduler_growth docs/pictures/scheduler-growth.svg` measures and draws.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import Figure
from bench.scheduler import placements, plain

SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
PODS, ROUNDS = 8_000, 4


def curve() -> list[tuple[int, float, float]]:
    """Return (nodes, microseconds a pod, microseconds a pod of the plain loop); the best of a few rounds.

    As many pods as a small cluster can take: one that is full answers with reasons for every node instead.
    """
    loop = 1e6 / plain(SIZES[0])
    best = dict.fromkeys(SIZES, 0.0)
    for _ in range(ROUNDS):
        for nodes in SIZES:
            best[nodes] = max(best[nodes], placements(nodes, min(PODS, nodes * 8)))
    return [(nodes, 1e6 / rate, loop * nodes / SIZES[0]) for nodes, rate in best.items()]


def run() -> list[Figure]:
    return [
        Figure(f"one pod, {nodes:,} nodes", cost, "µs", loop, loop / cost) for nodes, cost, loop in curve()
    ]


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 80, 170, 50, 60


def draw(points: Sequence[tuple[int, float, float]]) -> str:
    """Return the curves as SVG: both axes logarithmic, so that a cost in step with the nodes is a straight line."""
    low_x, high_x = math.log10(points[0][0]), math.log10(points[-1][0])
    values = [value for _, ours, loop in points for value in (ours, loop)]
    low_y, high_y = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(nodes: float) -> float:
        return LEFT + (math.log10(nodes) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)

    def y(cost: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(cost) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13" fill="#333">',
        "<title>Cost of placing one pod by the number of nodes</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="26" font-size="16">Cost of placing one pod</text>',
    ]
    for power in range(low_y, high_y + 1):
        at = y(10**power)
        unit = (
            f"{10**power:g} µs"
            if power < 3
            else f"{10 ** (power - 3):g} ms"
            if power < 6
            else f"{10 ** (power - 6):g} s"
        )
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{unit}</text>')
    for nodes, _, _ in points:
        shown = f"{nodes // 1000}k" if nodes >= 1000 else str(nodes)
        parts.append(
            f'<text x="{x(nodes):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{shown}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 14}" text-anchor="middle">nodes</text>')
    for column, colour, name in ((1, "#0b6e4f", "weir"), (2, "#b3541e", "a loop over all nodes")):
        places = [(x(point[0]), y(point[column])) for point in points]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in places]
        a, b = places[-1]
        parts.append(f'<text x="{a + 10:.1f}" y="{b + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join((*parts, "</svg>", ""))


if __name__ == "__main__":
    measured = curve()
    Path(sys.argv[1]).write_text(draw(measured))
    for nodes, cost, loop in measured:
        print(f"{nodes:>8,} nodes  {cost:7.1f} µs  loop {loop / 1000:9.1f} ms")
