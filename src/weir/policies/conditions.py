"""Do the match conditions of a webhook or policy hold for this write?

Spec: admissionregistration.k8s.io/v1 `matchConditions`. One condition that is false means "not about this write",
whatever the others say; one that fails means what the failurePolicy says.
Not here: rules and selectors (weir.policies.matching), the language (weir.cel).
"""

from __future__ import annotations

from collections.abc import Iterable

from weir.cel.values import EvaluationError
from weir.policies.expressions import Expression, Inputs, OutOfBudget


class ConditionsFailed(Exception):
    """Whether the conditions hold cannot be said, and a failure is not to be ignored."""


def conditions_hold(conditions: Iterable[Expression], inputs: Inputs, *, ignore_failures: bool) -> bool:
    """Return whether every condition holds; raises ConditionsFailed."""
    problems: list[str] = []
    answers: list[object] = []
    try:
        for condition in conditions:
            try:
                answers.append(inputs.evaluate(condition))
            except EvaluationError as error:
                problems.append(str(error))
    except OutOfBudget as error:
        if ignore_failures:
            return False
        raise ConditionsFailed(str(error)) from error
    if any(answer is False for answer in answers):
        return False
    if problems and not ignore_failures:
        unique = list(dict.fromkeys(problems))
        raise ConditionsFailed(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
    return not problems
