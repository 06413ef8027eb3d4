"""Validation of PriorityClass, Lease, Namespace, RuntimeClass and PodDisruptionBudget.

Spec: apiserver.md 13 (PriorityClass, Lease, names of namespaces), core.md 2.7 (RuntimeClass tolerations never take
gated operators); upstream's rules for disruption budgets.
"""

from __future__ import annotations

from typing import Final

from weir.validate.conditions import validate_conditions
from weir.validate.field import (
    Context,
    Document,
    Enum,
    Errors,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from weir.validate.gonames import go_struct
from weir.validate.int_or_percent import validate_at_most_all, validate_int_or_percent
from weir.validate.label_selector import selector_json, validate_label_selector
from weir.validate.meta import (
    IMMUTABLE,
    NOT_A_FINALIZER,
    STANDARD_FINALIZERS,
    validate_generic_meta,
    validate_labels,
    validate_meta,
)
from weir.validate.ratchet import CLOSED
from weir.validate.resources import validate_container_resources
from weir.validate.template import validate_not_negative
from weir.validate.tolerations import validate_tolerations
from weir.values.names import check_dns1123_label, check_label_key, check_path_segment

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")


def validate_priority_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a PriorityClass; its value never changes."""
    yield from validate_meta(new, old, context)
    value, policy = new.get("value") or 0, new.get("preemptionPolicy")
    if old is not None:
        if value != (old.get("value") or 0):
            yield forbidden("value", "may not be changed in an update.")
        if (policy or "PreemptLowerPriority") != (old.get("preemptionPolicy") or "PreemptLowerPriority"):
            yield invalid("preemptionPolicy", Enum(policy or ""), IMMUTABLE)
        return
    name = (new.get("metadata") or {}).get("name") or ""
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            detail = (
                "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"{name} is not a known system priority class"
                if name not in SYSTEM_PRIORITIES
                else "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
            )
            yield forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield forbidden("value", detail)
    if policy is not None and policy not in _PREEMPTION:
        yield (
            not_supported("preemptionPolicy", policy, _PREEMPTION) if policy else required("preemptionPolicy")
        )


def validate_lease(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Lease."""
    yield from validate_generic_meta(new, old, context)
    spec = new.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


def validate_namespace(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Namespace, whose name is a DNS label."""
    yield from validate_meta(new, old, context, check_dns1123_label)
    if old is not None and context.subresource == "status":
        yield from _validate_phase(new)
    if old is not None and context.subresource != "finalize":
        return
    for finalizer in (new.get("spec") or {}).get("finalizers") or ():
        messages = check_label_key(finalizer)
        yield from each_invalid("spec.finalizers", finalizer, messages)
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            yield invalid("spec.finalizers", finalizer, NOT_A_FINALIZER)


def _validate_phase(new: Document) -> Errors:
    phase = (new.get("status") or {}).get("phase") or ""
    if (new.get("metadata") or {}).get("deletionTimestamp"):
        if phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            yield invalid("status.Phase", Enum(phase), detail)
    elif phase not in ("", "Active"):
        yield invalid("status.Phase", Enum(phase), "may only be 'Active' if `deletionTimestamp` is empty")


def validate_runtime_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a RuntimeClass; its handler never changes."""
    yield from validate_generic_meta(new, old, context)
    handler = new.get("handler") or ""
    overhead = (new.get("overhead") or {}).get("podFixed") or {}
    yield from validate_container_resources({"limits": overhead}, (), "overhead")
    scheduling = new.get("scheduling") or {}
    if selector := scheduling.get("nodeSelector"):
        yield from validate_labels(selector, "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    yield from validate_tolerations(tolerations, "scheduling.tolerations", CLOSED)
    seen: set[tuple[tuple[str, object], ...]] = set()
    for i, toleration in enumerate(tolerations):
        if (same := tuple(sorted(toleration.items()))) in seen:
            yield duplicate(f"scheduling.tolerations[{i}]", go_struct("Toleration", toleration))
        seen.add(same)
    if not handler:
        yield required("handler")
    else:
        for message in check_dns1123_label(handler):
            yield invalid("handler", handler, message.replace("63 characters", "63 bytes"))
    if old is not None and handler != (old.get("handler") or ""):
        yield invalid("handler", None, IMMUTABLE)


def validate_disruption_budget(new: Document, old: Document | None, context: Context) -> Errors:
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
        yield invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            yield from validate_int_or_percent(value, f"spec.{name}")
            yield from validate_at_most_all(value, f"spec.{name}")
    yield from validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))
