"""Match conditions of webhooks, evaluated with CEL.

Spec: admissionregistration.k8s.io/v1 `matchConditions`; cel.md 9.1. CEL over `object`, `oldObject`, `request` and
`authorizer`. The CEL packages are imported with the first condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from weir.apiserver.admission.attributes import Attributes
from weir.apiserver.admission.expression_values import expression_values
from weir.apiserver.auth.cel_authorizer import Decide
from weir.errors import Forbidden, qualified, resource_details
from weir.objects.kind import Kind

if TYPE_CHECKING:
    from weir.policies.expressions import Expression

CACHED_CONDITIONS = 1000


def conditions_hold(
    conditions: Iterable[Mapping[str, Any]],
    a: Attributes,
    kind: Kind,
    decide: Decide | None,
    *,
    ignore_failures: bool,
) -> bool:
    """Return whether every condition holds of the write as *kind*; raises Forbidden for a failure that counts."""
    from weir.policies import conditions as condition_rules
    from weir.policies.expressions import MATCH_BUDGET, Inputs

    compiled = [_compiled(condition.get("expression", "")) for condition in conditions]
    inputs = Inputs(expression_values(a, decide, kind), {}, MATCH_BUDGET)
    try:
        return condition_rules.conditions_hold(compiled, inputs, ignore_failures=ignore_failures)
    except condition_rules.ConditionsFailed as error:
        named = qualified(a.kind.plural, a.kind.group)
        shown = f'{named} "{a.name}"' if a.name else named
        raise Forbidden(f"{shown} is forbidden: {error}", details=resource_details(a.kind, a.name)) from error


@lru_cache(CACHED_CONDITIONS)
def _compiled(text: str) -> Expression:
    from weir.policies.environment import environment
    from weir.policies.expressions import Expression

    return Expression(text, environment())
