"""W000: a file cannot be read, so nothing in it was checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weir.lint.rule import Finding, Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.objects.manifest import ManifestError

#: What Helm and its kin replace; `{{` alone is YAML (a flow mapping in a flow mapping), though nobody writes it.
TEMPLATE: Final = re.compile(
    r"\{\{-?\s*(?:[.$]|(?:if|else|end|range|with|include|template|define|toYaml|tpl)\b|/\*)"
)
_TAB: Final = re.compile(r"^ *\t", re.MULTILINE)
_LONGEST_LINE: Final = 400


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield nothing: what cannot be read never becomes a subject."""
    return iter(())


def unreadable(error: ManifestError, text: str) -> Finding:
    """Return the finding that stands for a file that cannot be read, with the cause where it is a common one."""
    place, message, fix = error.place, error.problem, ""
    lines = text.split("\n")
    if template := TEMPLATE.search(text):
        place_line = text.count("\n", 0, template.start()) + 1
        message = (
            f"an unrendered template stands on line {place_line}, so this is no manifest yet ({message})"
        )
        fix = "render it first: helm template . | weir lint -"
    elif tab := _TAB.search(text):
        line = text.count("\n", 0, tab.start()) + 1
        message = f"line {line} is indented with a tab, which YAML does not allow ({message})"
        fix = "indent with spaces"
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
        message=message,
        fix=fix,
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
