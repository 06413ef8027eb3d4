"""A curve of growth as SVG: both axes logarithmic, with guide lines for n and n log n; readable on light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from bench._growth_fit import Point, log_linear

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 84, 196, 56, 64
#: Colours that have enough contrast on white and on black.
COLOURS = ("#2a8f6b", "#c8612a", "#4f7fd1", "#a55fc0")
STYLE = """\
svg { color: #333; --ground: #fff; --grid: #ddd; --guide: #888 }
@media (prefers-color-scheme: dark) { svg { color: #ddd; --ground: #16191d; --grid: #3a3f45; --guide: #999 } }
text { fill: currentColor; font: 13px sans-serif } .title { font-size: 16px } .small { font-size: 11px }
.ground { fill: var(--ground) } .grid { stroke: var(--grid) }
.guide { stroke: var(--guide); stroke-dasharray: 5 4; fill: none }"""


def draw(title: str, n: str, unit: str, series: Mapping[str, Sequence[Point]], footer: str) -> str:
    """Return the curves of *series*; *unit* is `µs` or `B`, *n* says what is counted along the bottom."""
    points = [point for each in series.values() for point in each]
    if not points:
        raise ValueError(f"{title}: there are no points to draw")
    low_x, high_x = min(point.n for point in points), max(point.n for point in points)
    guides = _guides([each[0] for each in series.values() if each], high_x)
    values = [point.cost for point in points] + [cost for _, end in guides.values() for cost in (end.cost,)]
    low_y = math.floor(math.log10(min(values)))
    high_y = max(math.ceil(math.log10(max(values))), low_y + 1)

    def x(size: float) -> float:
        share = math.log(size / low_x) / math.log(high_x / low_x) if high_x > low_x else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(cost: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(cost) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="{LEFT}" y="28">{escape(title)}</text>',
    ]
    for power in range(low_y, high_y + 1):
        at = y(10**power)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{said(10.0**power, unit)}</text>'
        )
    for power in range(math.ceil(math.log10(low_x)), math.floor(math.log10(high_x)) + 1):
        at = x(10**power)
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        label = f"{10**power:,}"
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - BOTTOM + 36}" text-anchor="middle">{escape(n)}</text>')
    parts.append(f'<text class="small" x="{LEFT}" y="{HEIGHT - 8}">{escape(footer)}</text>')
    names: list[tuple[float, str, str]] = []
    for name, (begin, end) in guides.items():
        path = _path([(x(size), y(cost)) for size, cost in _between(begin, end, name)])
        parts.append(f'<path class="guide" d="{path}"/>')
        names.append((y(end.cost), name, "var(--guide)"))
    for colour, (name, each) in zip(COLOURS, series.items(), strict=False):
        places = [(x(point.n), y(point.cost)) for point in each]
        parts.append(f'<path d="{_path(places)}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in places]
        if places:
            names.append((places[-1][1], name, colour))
    for at, name, colour in _apart(names):
        parts.append(
            f'<text x="{WIDTH - RIGHT + 10}" y="{at + 4:.1f}" style="fill: {colour}">{escape(name)}</text>'
        )
    return "\n".join((*parts, "</svg>", ""))


def said(value: float, unit: str) -> str:
    """Return a number with the unit that makes it short.

    >>> said(10_000, "µs"), said(100, "B"), said(2_500_000, "B"), said(0.5, "µs")
    ('10 ms', '100 B', '2.5 MB', '0.5 µs')
    """
    steps = ("µs", "ms", "s") if unit == "µs" else ("B", "kB", "MB", "GB")
    for step in steps[:-1]:
        if value < 1000:
            return f"{value:.3g} {step}"
        value /= 1000
    return f"{value:.3g} {steps[-1]}"


def _guides(firsts: Sequence[Point], last: int) -> dict[str, tuple[Point, Point]]:
    """Return where the guide lines begin and end: they leave from the first point of the dearest curve."""
    begin = max(firsts, key=lambda point: point.cost)
    if begin.n >= last:
        return {}
    return {
        "cost ∝ n": (begin, Point(last, begin.cost)),
        "cost ∝ n log n": (begin, Point(last, log_linear(begin, last))),
    }


def _between(begin: Point, end: Point, name: str) -> list[tuple[float, float]]:
    steps = [begin.n * (end.n / begin.n) ** (step / 20) for step in range(21)]
    if name == "cost ∝ n":
        return [(begin.n, begin.cost), (end.n, end.cost)]
    return [(size, begin.cost * math.log(size) / math.log(begin.n)) for size in steps]


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)


def _apart(names: Sequence[tuple[float, str, str]], gap: float = 16.0) -> list[tuple[float, str, str]]:
    """Return the labels with their heights moved so far that none covers another."""
    found: list[tuple[float, str, str]] = []
    for at, name, colour in sorted(names):
        found.append((max(at, found[-1][0] + gap) if found else at, name, colour))
    return found
