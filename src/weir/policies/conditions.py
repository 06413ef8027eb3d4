"""Match conditions of webhooks and policies.

Spec: admissionregistration.k8s.io/v1 `matchConditions`. One false condition means no match, whatever the others give;
an error is handled by the failurePolicy.
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
