"""Webhook matching: whether a webhook is called for a write, and in which version.

Spec: admissionregistration.k8s.io/v1. Rules and selectors are those of policies (weir.policies.matching). The objects
are sent in the client's version, or with `matchPolicy: Equivalent` in that of the rule.

Match conditions of webhooks, evaluated with CEL. Spec: admissionregistration.k8s.io/v1 `matchConditions`; cel.md 9.1.
CEL over `object`, `oldObject`, `request` and `authorizer`. The CEL packages are imported with the first condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir.apiserver.admission.attributes import Attributes, Reader
from weir.apiserver.admission.expression_values import expression_values
from weir.apiserver.auth.cel_authorizer import Decide
from weir.caches import bounded
from weir.errors import Forbidden, qualified, resource_details
from weir.objects.kind import Kind
from weir.policies import matching as policy_matching
from weir.policies.environment import environment
from weir.policies.expressions import MATCH_BUDGET, Expression, Inputs
from weir.policies.matching import matched_kind, selectors_match

if TYPE_CHECKING:
    from weir.policies.expressions import Expression


Document = Mapping[str, Any]


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
    compiled = [_compiled(condition.get("expression", "")) for condition in conditions]
    inputs = Inputs(expression_values(a, decide, kind), {}, MATCH_BUDGET)
    try:
        return policy_matching.conditions_hold(compiled, inputs, ignore_failures=ignore_failures)
    except policy_matching.ConditionsFailed as error:
        named = qualified(a.kind.plural, a.kind.group)
        shown = f'{named} "{a.name}"' if a.name else named
        raise Forbidden(f"{shown} is forbidden: {error}", details=resource_details(a.kind, a.name)) from error


@bounded(CACHED_CONDITIONS, longest=2048)
def _compiled(text: str) -> Expression:
    return Expression(text, environment())


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    configuration: str
    index: int
    wire: Document

    @property
    def name(self) -> str:
        return str(self.wire.get("name", ""))

    @property
    def uid(self) -> tuple[str, int]:
        """What distinguishes this hook from all others, also from one of the same name."""
        return self.configuration, self.index

    @property
    def ignores_failures(self) -> bool:
        return self.wire.get("failurePolicy") == "Ignore"

    @property
    def seconds(self) -> int:
        return int(self.wire.get("timeoutSeconds") or 10)


def hooks_of(configurations: Iterable[Document]) -> tuple[Hook, ...]:
    """Return every hook in calling order: configurations by name, hooks as written."""
    ordered = sorted(configurations, key=lambda one: str(one["metadata"]["name"]))
    return tuple(
        Hook(one["metadata"]["name"], index, wire)
        for one in ordered
        for index, wire in enumerate(one.get("webhooks") or ())
    )


def wants(hook: Hook, a: Attributes, reader: Reader, decide: Decide | None = None) -> Kind | None:
    """Return as which kind *hook* is to be sent the write, None when it is not; raises when that cannot be decided.

    *decide* answers what match conditions ask about rights.
    """
    kind = rules_match(hook, a)
    if kind is None or not selectors_match(hook.wire, a, reader):
        return None
    return kind if _conditions_hold(hook, a, kind, decide) else None


def _conditions_hold(hook: Hook, a: Attributes, kind: Kind, decide: Decide | None) -> bool:
    conditions = hook.wire.get("matchConditions")
    if not conditions:
        return True
    return conditions_hold(conditions, a, kind, decide, ignore_failures=hook.ignores_failures)


def rules_match(hook: Hook, a: Attributes) -> Kind | None:
    """Return as which kind the hook's rules cover the write: the part that does not depend on the object."""
    return matched_kind(hook.wire.get("rules") or (), a, exact=hook.wire.get("matchPolicy") == "Exact")
