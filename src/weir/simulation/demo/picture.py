"""SVG timeline of a story's pods.

One row per pod or workload; a bar spans from binding to termination, coloured by node; grey is pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from xml.sax.saxutils import escape

from weir.simulation.demo.history import History, Life
from weir.simulation.demo.play import Ended
from weir.simulation.demo.story import Story
from weir.simulation.demo.words import clock

WIDTH: Final = 900
LEFT: Final = 250
RIGHT: Final = 24
ROW: Final = 26
COLOURS: Final = ("#54aeff", "#4ac26b", "#d4a72c", "#c297ff", "#ff8182", "#76e3ea")
INK, PALE, WAITING, GONE = "#1f2328", "#57606a", "#d0d7de", "#cf222e"


def picture(story: Story, ends: Sequence[Ended], history: History) -> str:
    """Return the SVG of a story that was played to its end."""
    start, stop = ends[0].since, ends[-1].now
    rows = _rows(history)
    nodes = list(dict.fromkeys(life.node for lives in rows.values() for life in lives if life.node))
    colours = {node: COLOURS[number % len(COLOURS)] for number, node in enumerate(sorted(nodes))}
    scale = _Scale(start, stop - start)
    top = 96
    bottom = top + len(rows) * ROW
    parts = [_text(24, 32, story.title, size=17, weight=600), _text(24, 52, story.source, fill=PALE)]
    x = LEFT
    for node, colour in colours.items():
        parts.append(f'<rect x="{x}" y="62" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 17, 73, node, fill=PALE, size=12))
        x += 17 + 8 * len(node) + 18
    if any(life.disrupted for lives in rows.values() for life in lives):
        parts.append(f'<line x1="{x}" x2="{x}" y1="61" y2="76" stroke="{GONE}" stroke-width="2"/>')
        parts.append(_text(x + 8, 73, "terminating", fill=PALE, size=12))
    for number, end in enumerate(ends, 1):
        at = scale.x(end.since)
        parts.append(
            f'<line x1="{at}" x2="{at}" y1="{top - 8}" y2="{bottom + 6}" stroke="{WAITING}" stroke-dasharray="3 3"/>'
        )
        parts.append(_text(at, bottom + 22, str(number), fill=PALE, anchor="middle", size=12, weight=600))
    for number, (name, lives) in enumerate(rows.items()):
        y = top + number * ROW
        parts.append(_text(LEFT - 12, y + 14, name, anchor="end", size=13))
        for life in lives:
            parts.extend(_bars(life, scale, y, stop, colours))
    y = bottom + 48
    for number, end in enumerate(ends, 1):
        good = "✓" if end.fine else "✗"
        line = f"{number}  {clock(end.since - start)}  {end.step.event}"
        parts.append(_text(24, y, good, fill="#1a7f37" if end.fine else GONE, weight=600))
        parts.append(_text(44, y, line, size=13))
        y += 21
    height = y + 4
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">'
    )
    ground = f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#f6f8fa"/>'
    return "\n".join((head, ground, *parts, "</svg>", ""))


class _Scale:
    """Where a moment stands on the paper."""

    def __init__(self, start: datetime, lasts: timedelta) -> None:
        self._start, self._seconds = start, lasts.total_seconds() or 1.0

    def x(self, at: datetime) -> float:
        share = (at - self._start).total_seconds() / self._seconds
        return round(LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)


def _rows(history: History) -> dict[str, list[Life]]:
    """Return the lives by row: pods of one owner together, in as many rows as run at a time."""
    rows: dict[str, list[Life]] = {}
    for life in history.lives.values():
        owners = life.document["metadata"].get("ownerReferences") or ()
        owner = next((each for each in owners if each.get("controller")), None)
        name = life.name
        if owner is not None:
            name = owner["name"].rpartition("-")[0] if owner["kind"] == "ReplicaSet" else owner["name"]
        lane = name
        number = 1
        while lane in rows and not _before(rows[lane][-1], life):
            number += 1
            lane = f"{name} ({number})"
        rows.setdefault(lane, []).append(life)
    return rows


def _before(one: Life, other: Life) -> bool:
    return one.terminating_at is not None and one.terminating_at <= other.created_at


def _bars(life: Life, scale: _Scale, y: float, stop: datetime, colours: dict[str, str]) -> list[str]:
    ends = life.terminating_at or life.ended_at or stop
    bound = life.bound_at or ends
    parts = []
    if (waited := scale.x(bound) - scale.x(life.created_at)) > 1:
        parts.append(_bar(scale.x(life.created_at), y + 6, waited, 6, WAITING))
    if life.bound_at is not None:
        x = scale.x(bound)
        parts.append(_bar(x, y, max(scale.x(ends) - x, 2.0), 18, colours[life.node]))
    if life.terminating_at is not None and life.disrupted:
        x = scale.x(life.terminating_at)
        parts.append(f'<line x1="{x}" x2="{x}" y1="{y - 2}" y2="{y + 20}" stroke="{GONE}" stroke-width="2"/>')
    return parts


def _bar(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{round(width, 1)}" height="{height}" rx="2" fill="{fill}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    fill: str = INK,
    size: int = 14,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}" fill="{fill}" {style}>{escape(text)}</text>'
