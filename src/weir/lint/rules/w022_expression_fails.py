"""W022: an expression fails on taints that nodes really carry."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.taints.expression import check_expression, decide
from weir.taints.operators import Outcome


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the expressions that end in an error for known taints, with the first such taint."""
    for path, toleration in subject.tolerations:
        expression = toleration.expression
        if not expression or check_expression(expression) is not None:
            continue
        failing = [
            (taint, judgement)
            for taint in facts.taints
            if (judgement := decide(expression, taint)).outcome is Outcome.EXPRESSION_FAILED
        ]
        if failing:
            taint, judgement = failing[0]
            others = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
            yield Problem(
                (*path, "expression"),
                f"fails for {taint}{others} ({judgement.error}), so that taint is not tolerated",
                "guard it: isSemver(taint.value) && …, or check taint.key first",
            )


RULE = Rule(
    code="W022",
    name="expression-fails",
    severity=Severity.WARNING,
    summary="An expression ends in an error for taints of the given nodes.",
    help="""\
`semver(taint.value)` fails when the value is not a version, `int(taint.value)` when it is not a number, and a failing
expression tolerates nothing; no error is raised anywhere. Taints of other keys are asked too, so an expression about
one key should say so first:

```
taint.key == 'example.com/kernel' && isSemver(taint.value) && semver(taint.value).isGreaterThan(semver('5.15.0'))
```

Needs nodes: give them with `--cluster`, or lint them together with the pods.""",
    check=check,
)
