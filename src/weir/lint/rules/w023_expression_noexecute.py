"""W023: an expression tolerates NoExecute taints without saying so."""

from __future__ import annotations

from collections.abc import Iterator

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.taints.expression import check_expression, evaluate, fields_read
from weir.taints.toleration import EVICTING


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the expressions that do not look at the effect and so also keep pods on nodes that evict."""
    for path, toleration in subject.tolerations:
        expression = toleration.expression
        if not expression or check_expression(expression) is not None or "effect" in fields_read(expression):
            continue
        stays = [taint for taint in facts.taints if taint.effect in EVICTING and evaluate(expression, taint)]
        known = f"such as {stays[0]} here, " if stays else ""
        yield Problem(
            (*path, "expression"),
            f"does not look at the effect, so it tolerates NoExecute taints too, {known}and the pod is not evicted",
            "add && taint.effect == 'NoSchedule' if it should only let the pod in",
            Severity.WARNING if stays else Severity.NOTE,
        )


RULE = Rule(
    code="W023",
    name="expression-tolerates-noexecute",
    severity=Severity.WARNING,
    summary="An expression that does not look at the effect tolerates NoExecute as well.",
    help="""\
A toleration with an expression cannot name an effect, so it is asked about taints of every effect. One that only looks
at the key keeps the pod running on a node that evicts others. Where that is not meant, ask for the effect too.

With nodes given, a NoExecute taint that is tolerated is a warning; without one it is a note.""",
    check=check,
)
