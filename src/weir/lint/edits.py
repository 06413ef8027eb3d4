"""Which text does `--fix` write? The edits of findings applied to the text they were found in.

An edit is applied only where its old text still stands; of two at one place the first is. Everything else of the text,
comments and spacing too, stays as it is.
Not here: which findings have an edit (the rules), files (weir.cli.lint).
"""

from __future__ import annotations

from collections.abc import Iterable

from weir.lint.rule import Finding


def apply_edits(text: str, findings: Iterable[Finding]) -> tuple[str, int]:
    """Return *text* with the edits of *findings*, and how many were applied."""
    lines = text.split("\n")
    by_place = {(found.line, found.column): found.edit for found in reversed(list(findings)) if found.edit}
    done = 0
    for line, column in sorted(by_place, reverse=True):  # from the end, so that places before it stay true
        edit = by_place[line, column]
        if not 1 <= line <= len(lines):
            continue
        before, rest = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
        if rest.startswith(edit.old):
            lines[line - 1] = before + edit.new + rest[len(edit.old) :]
            done += 1
    return "\n".join(lines), done
