"""W002: a key is written twice, and only the last one counts."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.validate.unknown_fields import show_path


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield each key that stands twice in one mapping."""
    for path, _place in subject.document.duplicates:
        yield Problem(
            path,
            f'strict decoding error: duplicate field "{show_path(path)}": only the last one counts',
            "remove one of them",
        )


RULE = Rule(
    code="W002",
    name="duplicate-key",
    severity=Severity.ERROR,
    summary="A key is written twice in one mapping; only the last one counts.",
    help="""\
YAML parsers keep the last of two equal keys and drop the first without a word. kubectl refuses such a file, other
tools do not: a toleration that was meant to be there may be the one that is dropped.""",
    check=check,
)
