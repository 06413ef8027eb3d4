"""W015: a kind that weir does not know, so the object was not checked."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.validate.unknown_fields import find_kind_problem


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield that an object was not checked; one whose kind is misspelt is refused by W001."""
    if subject.is_checked or not subject.kind or find_kind_problem(subject.api_version, subject.kind):
        return
    yield Problem(
        ("kind",),
        f"not checked: weir does not know kind {subject.kind} of {subject.api_version or 'no version'}",
        "nothing to do where the cluster has it (a CustomResourceDefinition, or an API weir does not serve)",
        Severity.ERROR if facts.strict else None,
    )


RULE = Rule(
    code="W015",
    name="kind-not-known",
    severity=Severity.NOTE,
    summary="The kind is not known, so the object was not checked.",
    help="""\
weir checks the kinds it serves. Objects of other kinds (custom resources, APIs without taints and tolerations) are
counted as not checked in every format, and reported as errors with `--strict`, where a pipeline must not pass what was
not looked at. A kind that is only misspelt is refused by [W001](W001.md) with the one that was meant.""",
    check=check,
)
