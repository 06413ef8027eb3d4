"""Live table of a story, redrawn in place on a terminal.

Without a terminal (a pipe, NO_COLOR) lines are printed as steps complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import IO, Final

CLEAR_BELOW: Final = "\033[J"


class Screen:
    """The bottom of a terminal, redrawn as often as wanted, above which finished lines stay."""

    def __init__(self, stream: IO[str], size: tuple[int, int] | None = None) -> None:
        """*size* is (columns, lines); the terminal's own when None."""
        self._stream, self._size = stream, size
        self._drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        """Show *lines* in place of what was drawn before; what does not fit the terminal is left out."""
        columns, height = self._size or tuple(shutil.get_terminal_size())
        room = max(height - 2, 1)
        shown = list(lines)
        if len(shown) > room:
            shown = [*shown[:1], f"… {len(shown) - room} more", *shown[len(shown) - room + 2 :]][:room]
        text = "".join(f"{_cut(line, columns)}\n" for line in shown)
        self._stream.write(self._back() + text)
        self._stream.flush()
        self._drawn = len(shown)

    def leave(self, lines: Sequence[str] = ()) -> None:
        """Take away what was drawn and write *lines* for good."""
        self._stream.write(self._back() + "".join(f"{line}\n" for line in lines))
        self._stream.flush()
        self._drawn = 0

    def _back(self) -> str:
        return f"\033[{self._drawn}A\r{CLEAR_BELOW}" if self._drawn else ""


def _cut(line: str, columns: int) -> str:
    return line if len(line) < columns else line[: max(columns - 2, 0)] + "…"
