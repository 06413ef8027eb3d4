"""A skew matrix as data with a versioned schema, and as SVG."""

from __future__ import annotations

from typing import Any, Final
from xml.sax.saxutils import escape

from weir.whatif.drawing import PALE, svg_text
from weir.whatif.skew import COLUMNS, Cell, Matrix

SCHEMA: Final = "weir.skew/v1"
WIDTH: Final = 860
LEFT: Final = 330
TOP: Final = 92
ROW: Final = 28
COLUMN: Final = 125
FILLS: Final = {"fine": "#dafbe1", "no": "#fff8c5", "danger": "#ffebe9", "none": "#f6f8fa"}
MARKS: Final = {"fine": "yes", "no": "no", "danger": "no ⚠", "none": "–"}


def mood(cell: Cell) -> str:
    """Return how a cell is coloured: fine, no, danger or none.

    >>> mood(Cell(True)), mood(Cell(False)), mood(Cell(True, danger="x")), mood(Cell(None))
    ('fine', 'no', 'danger', 'none')
    """
    if cell.danger:
        return "danger"
    return {True: "fine", False: "no", None: "none"}[cell.fine]


def mark(cell: Cell) -> str:
    """Return a cell in a word."""
    if cell.danger and cell.fine:
        return "yes ⚠"
    return MARKS[mood(cell)]


def report(matrix: Matrix) -> dict[str, Any]:
    """Return the matrix for programs (docs/reference/skew.schema.json)."""
    return {
        "schema": SCHEMA,
        "subject": matrix.subject,
        "gates": list(matrix.gates),
        "nodes": list(matrix.nodes),
        "dangerous": matrix.dangerous,
        "rows": [
            {
                "name": row.name,
                "components": dict(row.components),
                "dangerous": row.dangerous,
                **{
                    name: {"fine": cell.fine, "seen": cell.seen, "danger": cell.danger}
                    for name, cell in row.cells.items()
                },
            }
            for row in matrix.rows
        ],
    }


def picture(matrix: Matrix) -> str:
    """Return the matrix as SVG."""
    height = TOP + len(matrix.rows) * ROW + 24
    parts = [
        svg_text(24, 32, f"Version skew: {matrix.subject}", size=17, weight=600),
        svg_text(24, 54, ", ".join(matrix.gates), fill=PALE),
    ]
    for number, name in enumerate(COLUMNS):
        parts.append(
            svg_text(LEFT + number * COLUMN + COLUMN / 2, TOP - 10, name, anchor="middle", weight=600)
        )
    for line, row in enumerate(matrix.rows):
        y = TOP + line * ROW
        parts.append(svg_text(LEFT - 14, y + 18, row.name, anchor="end"))
        for number, name in enumerate(COLUMNS):
            cell = row.cells[name]
            x = LEFT + number * COLUMN
            title = escape(cell.danger or cell.seen)
            parts.append(
                f'<rect x="{x + 2}" y="{y + 2}" width="{COLUMN - 4}" height="{ROW - 4}" rx="4" '
                f'fill="{FILLS[mood(cell)]}"><title>{title}</title></rect>'
            )
            parts.append(svg_text(x + COLUMN / 2, y + 18, mark(cell), anchor="middle"))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )
