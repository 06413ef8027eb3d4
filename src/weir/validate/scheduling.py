"""Validation of PriorityClass.

Spec: apiserver.md 13 (PriorityClass). The value never changes.
"""

from __future__ import annotations

from typing import Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import (
    IMMUTABLE,
    validate_meta,
)

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")


def validate_priority_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a PriorityClass; its value never changes."""
    yield from validate_meta(new, old, context)
    value, policy = new.get("value") or 0, new.get("preemptionPolicy")
    if old is not None:
        if value != (old.get("value") or 0):
            yield field.forbidden("value", "may not be changed in an update.")
        if (policy or "PreemptLowerPriority") != (old.get("preemptionPolicy") or "PreemptLowerPriority"):
            yield field.invalid("preemptionPolicy", Enum(policy or ""), IMMUTABLE)
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
            yield field.forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield field.forbidden("value", detail)
    if policy is not None and policy not in _PREEMPTION:
        yield (
            field.not_supported("preemptionPolicy", policy, _PREEMPTION)
            if policy
            else field.required("preemptionPolicy")
        )
