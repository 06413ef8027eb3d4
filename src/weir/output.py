"""Terminal output: tables, colour, JSON and YAML.

Colour only on a terminal without NO_COLOR, or with FORCE_COLOR; the plain text is the same. Every command writes
through `say` (a line) or `write_document`: `say` escapes control characters, so that no name in a cluster can forge
output. Weir's own colour is marked by `paint` with private characters that become escape sequences at the very end.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Final

import click

from weir.values.printable import printable, printable_json, printable_yaml

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


#: What stands for a colour until a line is shown: one character each, so that it is hardly any wider. They are private
#: ones, chosen anew by each process, and only those that `paint` has used mean anything: foreign text cannot know them.
_FIRST_MARK: Final = 0xF0000 + int.from_bytes(os.urandom(2), "big") % 0xFF00
_mark_of: Final[dict[str, str]] = {}
_sequence_of: Final[dict[str, str]] = {}


def paint(text: str, colour: str, *, bold: bool = False, on: bool = False) -> str:
    """Return *text* in *colour* when *on*, else as it is."""
    if not on:
        return text
    begin = click.style("", fg=colour, bold=bold or None, reset=False)
    return f"{_mark(begin)}{escaped(text)}{_mark(_RESET)}"


def coloured_diff(lines: Iterable[str], colour: bool) -> Iterator[str]:
    """Yield the lines of a diff, indented."""
    for line in lines:
        kind = GOOD if line.startswith("+") else BAD if line.startswith("-") else DIM
        yield f"    {paint(line, kind, on=colour)}"


_RESET: Final = "\x1b[0m"


def _mark(sequence: str) -> str:
    """Return the character that stands for *sequence*."""
    if sequence not in _mark_of:
        mark = chr(_FIRST_MARK + len(_mark_of))
        _mark_of[sequence], _sequence_of[mark] = mark, sequence
    return _mark_of[sequence]


def escaped(line: str) -> str:
    """Return *line* without anything that a terminal would obey; its colour is still marked."""
    return printable(line, keep=_sequence_of)


def visible(line: str) -> str:
    """Return *line* as it is shown: escaped, and in colour where it was painted."""
    line = escaped(line)
    for mark, sequence in _sequence_of.items():
        line = line.replace(mark, sequence)
    return line


def say(line: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Show a person one line, on stderr with *err*; without *nl* the next words follow on it."""
    click.echo(visible(line), err=err, nl=nl, color=True)


def say_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Show a person *lines*, all at once."""
    if shown := [visible(line) for line in lines]:
        click.echo("\n".join(shown), err=err, color=True)


def write_document(text: str, *, nl: bool = True) -> None:
    """Write a document for programs, as it is: in UTF-8, whatever the locale."""
    click.echo(text if shows_unicode(sys.stdout) else text.encode(), nl=nl, color=True)


def redraw(text: str) -> None:
    """Show *text* on a terminal's stderr in place of the line that is there."""
    click.echo(f"\r\033[K{visible(text)}", nl=False, err=True, color=True)


#: Characters of weir's own texts, for terminals whose encoding has none of them; others are shown as escapes.
_PLAIN: Final = {
    "✓": "+", "✗": "x", "…": "...", "→": "->", "←": "<-", "–": "-", "—": "-", "−": "-", "·": "-", "×": "x",
    "≥": ">=", "≤": "<=", "≠": "!=", "│": "|", "─": "-", "█": "#", "▏": "|", "’": "'", "‘": "'", "“": '"', "”": '"',
    "«": "<<", "»": ">>", "•": "*", "µ": "u", "°": " deg",
}  # fmt: skip


def shows_unicode(stream: IO[Any]) -> bool:
    """Return whether every character can be written to *stream*."""
    return (
        (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-").startswith(("utf-8", "utf8"))
    )


def fit_encoding() -> None:
    """Let the standard streams replace what their encoding cannot show, instead of failing."""
    codecs.register_error("weir.plain", _in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not shows_unicode(stream):
            stream.reconfigure(errors="weir.plain")


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    plain = "".join(_PLAIN.get(char) or char.encode("ascii", "backslashreplace").decode() for char in text)
    return plain, error.end


def terminal_width() -> int | None:
    """Return how many columns the answer has: the terminal's, or COLUMNS; None for a pipe, which has any number."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return *text* as lines of at most *width* columns, broken between words only.

    >>> wrapped("one two three", 9)
    ['one two', 'three']
    """
    text = escaped(text)
    if width is None or len(indent) + len(text) <= width:
        return [indent + text]
    return textwrap.wrap(
        text,
        max(width, len(indent) + 1),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(
    rows: Iterable[Sequence[str]], indent: int = 2, gap: int = 2, width: int | None = None
) -> list[str]:
    """Return *rows* as lines with aligned columns; a first cell that is a count is set to the right.

    With a *width*, long cells are broken between words; where that would leave a column too narrow to read, each row
    becomes a paragraph.

    >>> table([["×24", "spot-1", "sla=940"], ["×1", "od-1", "ok"]])
    ['  ×24  spot-1  sla=940', '   ×1  od-1    ok']
    """
    grid = [[escaped(cell) for cell in row] for row in rows]
    widths: list[int] = []
    for row in grid:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], len(cell))
    if width is not None and indent + sum(widths) + gap * (len(widths) - 1) > width:
        narrowed = _narrowed(grid, widths, width - indent - gap * (len(widths) - 1))
        if narrowed is None:
            return _paragraphs(grid, width, indent)
        widths = narrowed
    lines = []
    for row in grid:
        cells = [wrapped(cell, size or 1) for cell, size in zip(row, widths, strict=False)]
        for number in range(max(map(len, cells), default=0)):
            parts = [cell[number] if number < len(cell) else "" for cell in cells]
            set_out = [
                part.rjust(size)
                if column == 0 and part.lstrip("×").replace(",", "").isdigit()
                else part.ljust(size)
                for column, (part, size) in enumerate(zip(parts, widths, strict=False))
            ]
            lines.append((" " * indent + (" " * gap).join(set_out)).rstrip())
    return lines


#: A column narrower than this is not read but deciphered.
_NARROWEST: Final = 20


def _narrowed(grid: list[list[str]], widths: list[int], room: int) -> list[int] | None:
    """Return the widths of columns that fit in *room*, the widest made narrower; None when none of them may be."""
    found = list(widths)
    longest = [
        max((len(word) for row in grid if column < len(row) for word in row[column].split()), default=0)
        for column in range(len(widths))
    ]
    while sum(found) > room:
        widest = max(range(len(found)), key=lambda column: found[column])
        least = max(_NARROWEST, longest[widest])
        if found[widest] <= least:
            return None
        found[widest] = max(least, found[widest] - (sum(found) - room))
    return found


def _paragraphs(grid: list[list[str]], width: int, indent: int) -> list[str]:
    """Return each row as a paragraph that names its columns; the first row has their names if it is in capitals."""
    head = grid[0] if grid and all(cell.isupper() for cell in grid[0]) else []
    lines: list[str] = []
    for row in grid[1:] if head else grid:
        first = "  ".join(cell for cell in row[:2] if cell)
        lines += wrapped(first, width, " " * indent)
        for number, cell in enumerate(row[2:], 2):
            name = f"{head[number].lower()}: " if head else ""
            if cell:
                lines += wrapped(name + cell, width, " " * (indent + 4))
    return lines


def to_json(value: Any) -> str:
    """Return *value* as indented JSON, keys in their own order."""
    import msgspec

    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:  # a name that was not UTF-8
        text = json.dumps(value, indent=2, ensure_ascii=False)
    return printable_json(text)


def to_yaml(value: Any, indent: int = 0) -> str:
    """Return *value* as block YAML, keys in their own order, each line indented by *indent*."""
    import yaml

    text = yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join(" " * indent + line for line in printable_yaml(text).rstrip("\n").split("\n"))


def _dumper() -> Any:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def written(dumper: Any, text: str) -> Any:
        # In double quotes every character can be escaped, line breaks too; the other styles would show them. Bytes
        # that were not UTF-8 have no form in YAML.
        text = text.encode("utf-8", "backslashreplace").decode()
        return dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"'
        )

    Dumper.add_representer(str, written)
    return Dumper


def emit(value: Any, form: str) -> None:
    """Print *value* as `json` or `yaml`."""
    write_document(to_json(value) if form == "json" else to_yaml(value))


@contextmanager
def progress(what: str, patience_seconds: float = 2.0) -> Iterator[Any]:
    """Give a `tick(done, total)` to call while working; after two seconds a terminal sees how far it is.

    A third argument takes the place of *what*.
    """
    started = time.monotonic()
    shown = False
    visible = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def tick(done: int, total: int, now: str = what) -> None:
        nonlocal shown
        if visible and time.monotonic() - started > patience_seconds:
            shown = True
            redraw(f"{now} {done:,} of {total:,}")

    try:
        yield tick
    finally:
        if shown:
            redraw("")
