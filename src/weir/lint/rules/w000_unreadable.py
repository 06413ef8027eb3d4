"""W000: a file cannot be read, so nothing in it was checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weir.lint.rule import Finding, Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.objects.manifest import ManifestError

_LONGEST_LINE: Final = 400


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield nothing: what cannot be read never becomes a subject."""
    return iter(())


def unreadable(error: ManifestError, text: str) -> Finding:
    """Return the finding that stands for a file that cannot be read."""
    place = error.place
    lines = text.split("\n")
    source = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    if not source.replace("\t", " ").rstrip("\r").isprintable():  # a binary file
        source = ""
    return Finding(
        rule=RULE,
        severity=RULE.severity,
        file=place.file,
        line=place.line,
        column=place.column,
        width=1,
        source=source[:_LONGEST_LINE],
        object="",
        field="",
        message=error.problem,
        fix=error.fix,
    )


RULE = Rule(
    code="W000",
    name="unreadable",
    severity=Severity.ERROR,
    summary="A file cannot be read; nothing in it was checked.",
    help="""\
The other files are still checked. Two causes are named, because the parser's own words do not lead to them: a template
that was not rendered (`{{ .Values.image }}`), which `helm template . | weir lint -` solves, and a tab in the
indentation, which YAML does not allow.""",
    check=check,
)
