"""Compiles and type-checks expressions of webhooks and admission policies.

Spec: admissionregistration.k8s.io/v1 `matchConditions`, `validations`; cel.md 9.1. A result of unknown type is
rejected where one type is required.
"""

from __future__ import annotations

from weir.caches import bounded
from weir.policies.environment import environment
from weir.policies.expressions import Expression
from weir.policies.validating import CONDITION
from weir.validate.field import Errors, internal, invalid

__all__ = ["refusals", "validate_expression"]


def validate_expression(expression: str, at: str, *, params: bool = False) -> Errors:
    """Yield why an expression is no match condition."""
    yield from refusals(_compiled(expression, params), at)


@bounded(most=100, longest=4096)
def _compiled(expression: str, params: bool) -> Expression:
    """Compile a condition once: a webhook's stay the same, and are looked at again whenever it is written."""
    return Expression(expression, environment(params), CONDITION)


def refusals(expression: Expression, at: str, shown: str | None = None) -> Errors:
    """Yield why a compiled expression cannot be used; *shown* is how the field has it."""
    refused = expression.refused
    if refused is None:
        return
    if refused.internal:
        yield internal(at, refused.detail)
    else:
        yield invalid(at, expression.text if shown is None else shown, refused.detail)
