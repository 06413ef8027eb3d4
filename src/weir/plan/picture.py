"""A plan as SVG: a Gantt chart of its waves with the pods they move, the room left and the budgets."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from weir.explain.phrases import counted, listed
from weir.plan.document import Plan, Wave
from weir.whatif.drawing import INK, PALE, svg_text

WIDTH: Final = 960
LEFT: Final = 250
RIGHT: Final = 230
TOP: Final = 92
ROW: Final = 46
BAR, LATE = "#54aeff", "#ddf4ff"
#: A wave is at least so wide, however short.
_LEAST: Final = 4.0


def picture(plan: Plan) -> str:
    """Return the picture."""
    height = TOP + len(plan.waves) * ROW + 56
    seconds = max(plan.totals.seconds, 1.0)
    width = WIDTH - LEFT - RIGHT
    numbers = plan.totals
    parts = [
        svg_text(24, 32, _cut(f"Plan: {plan.made.command}", 84), size=17, weight=600),
        svg_text(
            24,
            54,
            f"{counted(numbers.waves, 'wave')}, {counted(numbers.nodes, 'node')}, "
            f"{counted(numbers.moved_pods, 'pod')} moved, {numbers.seconds:g} s foreseen",
            fill=PALE,
        ),
        svg_text(WIDTH - RIGHT + 14, TOP - 10, "room left, budgets", weight=600),
    ]
    for number in range(5):
        x = LEFT + width * number / 4
        parts.append(
            svg_text(
                x,
                TOP - 10,
                f"{seconds * number / 4:g} s",
                size=11,
                fill=PALE,
                anchor="middle" if number < 4 else "end",  # what is behind it has a title of its own
            )
        )
        bottom = TOP + len(plan.waves) * ROW
        parts.append(f'<line x1="{x:g}" y1="{TOP}" x2="{x:g}" y2="{bottom}" stroke="#d0d7de"/>')
    most = max((len(wave.evictions) for wave in plan.waves), default=0)
    for line, wave in enumerate(plan.waves):
        parts += _row(wave, TOP + line * ROW, seconds, width, most)
    for place, note in enumerate(plan.not_known[:2]):
        parts.append(
            svg_text(24, height - 26 + place * 16, _cut(f"not known: {note}", 140), size=11, fill=PALE)
        )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _row(wave: Wave, y: float, seconds: float, width: float, most: int) -> list[str]:
    x = LEFT + width * wave.starts_after_seconds / seconds
    long = max(width * (wave.ends_after_seconds - wave.starts_after_seconds) / seconds, _LEAST)
    x = min(x, LEFT + width - long)
    moved = len(wave.evictions)
    share = 10 + 16 * moved / most if most else 10  # the more pods, the higher
    top = y + (ROW - share) / 2
    tip = escape(
        "; ".join((*wave.changes, *(f"{m.workload}: {m.pods} {m.source} → {m.to}" for m in wave.moves)))
    )
    room = ", ".join(
        text
        for text in (
            f"{wave.room['cpu']:g} CPUs" if "cpu" in wave.room else "",
            f"{wave.room['memory'] / 2**30:.0f} GiB" if "memory" in wave.room else "",
        )
        if text
    )
    budgets = listed([f"{each.budget} allows {each.allowed}" for each in wave.wait_for.budgets], 1)
    return [
        svg_text(24, y + 20, f"Wave {wave.number}: {counted(moved, 'pod')}", weight=600),
        svg_text(24, y + 36, _cut(listed(wave.nodes, 2), 34), size=11, fill=PALE),
        f'<rect x="{x:g}" y="{top:g}" width="{long:g}" height="{share:g}" rx="3" fill="{BAR if moved else LATE}" '
        f'stroke="{INK}" stroke-width="0.5"><title>{tip}</title></rect>',
        svg_text(WIDTH - RIGHT + 14, y + 20, room, size=12),
        svg_text(WIDTH - RIGHT + 14, y + 36, _cut(budgets, 34), size=11, fill=PALE),
    ]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
