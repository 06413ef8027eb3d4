"""W020: an expression is close to the cost the API server refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weir.cel import CompileError
from weir.cel.env import COST_LIMIT
from weir.lint.rule import Problem, Rule, Severity
from weir.lint.subject import Facts, Subject
from weir.taints.expression import check_expression, estimate

#: From here on a small change of the expression, or of the sizes Kubernetes assumes, can be one too much.
_NEAR: Final = COST_LIMIT // 2


def check(subject: Subject, facts: Facts) -> Iterator[Problem]:
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


RULE = Rule(
    code="W020",
    name="expression-cost",
    severity=Severity.WARNING,
    summary="An expression's worst-case cost is more than half of what the API server allows.",
    help="""\
The API server estimates the worst case of an expression from the longest key (317), value (63) and effect (16) a taint
can have, and refuses what could cost more than 1,000,000. An expression near that limit is accepted today and may be
refused after the next small change. `weir cel cost` shows what each part costs.""",
    check=check,
)
