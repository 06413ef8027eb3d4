"""Validation of PodDisruptionBudget.

Spec: upstream's rules for disruption budgets.
"""

from __future__ import annotations

from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import (
    validate_generic_meta,
)
from weir.validate.conditions import validate_conditions
from weir.validate.numbers import validate_at_most_all, validate_int_or_percent, validate_not_negative
from weir.validate.selectors import selector_json, validate_label_selector
from weir.values.names import check_path_segment


def validate_pod_disruption_budget(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a PodDisruptionBudget; metadata is only looked at when the spec is sound."""
    if context.subresource == "status":
        status = new.get("status") or {}
        yield from validate_conditions(status.get("conditions") or [], "status.conditions")
        names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        yield from validate_not_negative(status, names, "status")
        return
    errors = list(_validate_budget(new))
    yield from errors
    if not errors:
        yield from validate_generic_meta(new, old, context, check_path_segment)


def _validate_budget(new: Document) -> Errors:
    spec = new.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {
            "MinAvailable": least,
            "Selector": selector_json(spec.get("selector")),
            "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield field.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            yield from validate_int_or_percent(value, f"spec.{name}")
            yield from validate_at_most_all(value, f"spec.{name}")
    yield from validate_label_selector(spec.get("selector"), "spec.selector")
    yield from field.one_of(
        "spec.unhealthyPodEvictionPolicy",
        spec.get("unhealthyPodEvictionPolicy"),
        ("AlwaysAllow", "IfHealthyBudget"),
    )
