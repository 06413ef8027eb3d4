"""Applies the edits of findings for `--fix`.

An edit is applied only where its old text still stands; of two at one place the first is. Everything else, comments
and spacing included, stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from weir.lint.rule import Finding
from weir.objects.text_edits import TextEdit
from weir.objects.text_edits import apply_edits as apply_to_text


def apply_edits(text: str, findings: Iterable[Finding]) -> tuple[str, int]:
    """Return *text* with the edits of *findings*, and how many were applied."""
    begins = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    by_place = {(found.line, found.column): found.edit for found in reversed(list(findings)) if found.edit}
    edits: list[TextEdit] = []
    for (line, column), edit in sorted(by_place.items(), key=lambda each: each[0]):
        if not 1 <= line < len(begins):
            continue
        start = begins[line - 1] + column - 1
        free = not edits or edits[-1].end <= start
        if free and text.startswith(edit.old, start):
            edits.append(TextEdit(start, start + len(edit.old), edit.new))
    return apply_to_text(text, edits), len(edits)
