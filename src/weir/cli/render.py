"""How does it look on a terminal, in a pipe, in a program? Tables, colour, JSON and YAML.

Colour only where a person looks: on a terminal, and not with NO_COLOR set; with FORCE_COLOR also elsewhere. The plain
text is the same text.
Not here: which words are said (weir.explain.words and the other commands).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

import click

GOOD: Final = "green"
BAD: Final = "red"
NOTE: Final = "yellow"
DIM: Final = "bright_black"


def wants_colour(stream: IO[Any] | None = None) -> bool:
    """Return whether *stream* (stdout when None) is a terminal that shows colour."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    if os.environ.get("TERM") == "dumb":
        return False
    return bool(getattr(stream, "isatty", lambda: False)())


def paint(text: str, colour: str, *, bold: bool = False, on: bool = False) -> str:
    """Return *text* in *colour* when *on*, else as it is."""
    return click.style(text, fg=colour, bold=bold) if on else text


def table(rows: Iterable[Sequence[str]], indent: int = 2, gap: int = 2) -> list[str]:
    """Return *rows* as lines with aligned columns; a first cell that is a count is set to the right.

    >>> table([["×24", "spot-1", "sla=940"], ["×1", "od-1", "ok"]])
    ['  ×24  spot-1  sla=940', '   ×1  od-1    ok']
    """
    grid = [list(row) for row in rows]
    widths: list[int] = []
    for row in grid:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row[:-1]):
            widths[column] = max(widths[column], len(cell))
    lines = []
    for row in grid:
        cells = [
            cell.rjust(width)
            if column == 0 and cell.lstrip("×").replace(",", "").isdigit()
            else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append((" " * indent + (" " * gap).join(cells)).rstrip())
    return lines


def to_json(value: Any) -> str:
    """Return *value* as indented JSON, keys in their own order."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def to_yaml(value: Any, indent: int = 0) -> str:
    """Return *value* as block YAML, keys in their own order, each line indented by *indent*."""
    import yaml

    text = yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=1000)
    return "".join(" " * indent + line for line in text.splitlines(keepends=True)).rstrip("\n")


def _dumper() -> Any:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Dumper


def emit(value: Any, form: str) -> None:
    """Print *value* as `json` or `yaml`."""
    click.echo(to_json(value) if form == "json" else to_yaml(value))


@contextmanager
def progress(what: str, patience_seconds: float = 2.0) -> Iterator[Any]:
    """Give a `tick(done, total)` to call while working; after two seconds a terminal sees how far it is."""
    started = time.monotonic()
    shown = False
    visible = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def tick(done: int, total: int) -> None:
        nonlocal shown
        if visible and time.monotonic() - started > patience_seconds:
            shown = True
            click.echo(f"\r{what} {done:,} of {total:,}", nl=False, err=True)

    try:
        yield tick
    finally:
        if shown:
            click.echo("\r\033[K", nl=False, err=True)
