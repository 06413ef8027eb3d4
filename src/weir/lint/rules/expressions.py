"""Rules about CEL tolerations: cost, constant results, failures, effects."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from weir.cel import CompileError
from weir.cel.env import COST_LIMIT
from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.objects.core import Taint
from weir.taints.expression import check_expression, decide, estimate, evaluate, fields_read
from weir.taints.notation import NODE_EFFECTS
from weir.taints.operators import Outcome
from weir.taints.toleration import EVICTING

#: From here on a small change of the expression, or of the sizes Kubernetes assumes, can be one too much.
_NEAR: Final = COST_LIMIT // 2


def _expression_cost(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the accepted expressions whose worst case is near the limit."""
    for path, toleration in subject.tolerations:
        if not toleration.expression or check_expression(toleration.expression) is not None:
            continue  # a refused expression is the API server's to report
        try:
            worst = estimate(toleration.expression).max
        except CompileError:
            continue
        if worst >= _NEAR:
            yield Problem(
                (*path, "expression"),
                f"the worst case costs {worst:,} of the {COST_LIMIT:,} the API server allows",
                "compare with == or startsWith where it can, and avoid loops inside loops",
            )


W020 = Rule(
    code="W020",
    name="expression-cost",
    severity=Severity.WARNING,
    summary="An expression's worst-case cost is more than half of what the API server allows.",
    help="""\
The API server estimates the worst case of an expression from the longest key (317), value (63) and effect (16) a taint
can have, and refuses what could cost more than 1,000,000. An expression near that limit is accepted today and may be
refused after the next small change. `weir cel cost` shows what each part costs.""",
    check=_expression_cost,
)


_PROBES: Final = tuple(
    Taint(key, value, effect)
    for key, value, effect in product(("a", "example.com/tier"), ("", "0", "1.2.3", "x"), NODE_EFFECTS)
)


def _constant_expression(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the expressions whose result does not depend on the taint, or that no effect can make true."""
    for path, toleration in subject.tolerations:
        expression = toleration.expression
        if not expression or check_expression(expression) is not None:
            continue
        read = fields_read(expression)
        if read == {"effect"}:
            # an effect is one of three, so all cases can be tried
            verdicts = {bool(evaluate(expression, Taint("k", "v", effect))) for effect in NODE_EFFECTS}
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


W021 = Rule(
    code="W021",
    name="constant-expression",
    severity=Severity.WARNING,
    summary="An expression is true for every taint, or for none.",
    help="""\
An expression that reads nothing of the taint, or only its effect without telling effects apart, does not choose. Always
true it is the wildcard toleration: the pod stays on nodes that are not ready or unreachable. Never true it does
nothing. Expressions that read key or value are held against the given nodes by W006 instead.""",
    check=_constant_expression,
)


def _expression_fails(subject: Subject, facts: Facts) -> Iterator[Problem]:
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


W022 = Rule(
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
    check=_expression_fails,
)


def _expression_noexecute(subject: Subject, facts: Facts) -> Iterator[Problem]:
    """Yield the expressions that do not look at the effect and so also keep pods on nodes that evict."""
    for path, toleration in subject.tolerations:
        expression = toleration.expression
        if not expression or check_expression(expression) is not None or "effect" in fields_read(expression):
            continue
        stays = [taint for taint in facts.taints if taint.effect in EVICTING and evaluate(expression, taint)]
        example = f"such as {stays[0]} here, " if stays else ""
        yield Problem(
            (*path, "expression"),
            f"does not look at the effect, so it tolerates NoExecute taints too, {example}and the pod is not evicted",
            "add && taint.effect == 'NoSchedule' if it should only let the pod in",
            Severity.WARNING if stays else Severity.NOTE,
        )


W023 = Rule(
    code="W023",
    name="expression-tolerates-noexecute",
    severity=Severity.WARNING,
    summary="An expression that does not look at the effect tolerates NoExecute as well.",
    help="""\
A toleration with an expression cannot name an effect, so it is asked about taints of every effect. One that only looks
at the key keeps the pod running on a node that evicts others. Where that is not meant, ask for the effect too.

With nodes given, a NoExecute taint that is tolerated is a warning; without one it is a note.""",
    check=_expression_noexecute,
)
