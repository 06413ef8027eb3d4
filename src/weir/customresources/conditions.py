"""Conditions of a CustomResourceDefinition."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def find_condition(definition: Document, name: str) -> Document | None:
    """Return the condition called *name*, if the definition has it."""
    found = (definition.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one.get("type") == name), None)


def is_true(definition: Document, name: str) -> bool:
    """Return whether a condition is there and true."""
    found = find_condition(definition, name)
    return found is not None and found.get("status") == "True"


def with_condition(
    definition: Document, name: str, status: str, reason: str, message: str, now: str
) -> Document:
    """Return a definition in which the condition says this; its time changes with its status."""
    condition = {
        "type": name,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    inside = dict(definition.get("status") or {})
    conditions = list(inside.get("conditions") or ())
    for i, one in enumerate(conditions):
        if one.get("type") == name:
            if one.get("status") == status and one.get("lastTransitionTime"):
                condition["lastTransitionTime"] = one["lastTransitionTime"]
            conditions[i] = {**one, **condition}
            break
    else:
        conditions.append(condition)
    inside["conditions"] = conditions
    return {**definition, "status": inside}
