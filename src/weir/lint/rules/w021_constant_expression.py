"""W021: an expression is always, or never, true."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.objects.core import Taint
from weir.taints.expression import check_expression, evaluate, fields_read

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PROBES: Final = tuple(
    Taint(key, value, effect)
    for key, value, effect in product(("a", "example.com/tier"), ("", "0", "1.2.3", "x"), _EFFECTS)
)


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the expressions whose result does not depend on the taint, or that no effect can make true."""
    for path, toleration in subject.tolerations:
        expression = toleration.expression
        if not expression or check_expression(expression) is not None:
            continue
        read = fields_read(expression)
        if read == {"effect"}:
            # an effect is one of three, so all cases can be tried
            verdicts = {bool(evaluate(expression, Taint("k", "v", effect))) for effect in _EFFECTS}
        elif not read:
            verdicts = {bool(evaluate(expression, probe)) for probe in _PROBES[:1]}
        else:
            continue
        if len(verdicts) == 1:
            always = verdicts == {True}
            yield Problem(
                (*path, "expression"),
                "is true for every taint, node conditions included"
                if always
                else "is never true, so this toleration tolerates nothing",
                "say which taints it is about, by taint.key" if always else "remove it, or correct it",
            )


RULE = Rule(
    code="W021",
    name="constant-expression",
    severity=Severity.WARNING,
    summary="An expression is true for every taint, or for none.",
    help="""\
An expression that reads nothing of the taint, or only its effect without telling effects apart, does not choose. Always
true it is the wildcard toleration: the pod stays on nodes that are not ready or unreachable. Never true it does
nothing. Expressions that read key or value are held against the given nodes by W006 instead.""",
    check=check,
)
