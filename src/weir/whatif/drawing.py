"""What the SVG pictures of matrices and plans are drawn with."""

from __future__ import annotations

from xml.sax.saxutils import escape

INK, PALE = "#1f2328", "#57606a"


def svg_text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 13,
    weight: int = 400,
    fill: str = INK,
    anchor: str = "start",
) -> str:
    """Return a line of text as SVG."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
