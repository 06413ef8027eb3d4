"""Validation of metav1.Condition lists in a status.

Spec: dra.md 1.15 (`status.conditions[i]`): the shared condition type of newer APIs.
"""

from __future__ import annotations

import re
from typing import Final

from weir.fields import field
from weir.fields.field import Document, Errors
from weir.values.names import check_label_key

STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_match_reason = re.compile(_REASON).fullmatch
_REASON_MESSAGE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)


def validate_conditions(conditions: list[Document], at: str) -> Errors:
    """Yield what is wrong with a list of conditions, unique by type."""
    seen: dict[str, int] = {}
    for i, condition in enumerate(conditions):
        where, kind = f"{at}[{i}]", condition.get("type") or ""
        if kind in seen:
            yield field.duplicate(where, kind)
        seen[kind] = i
        yield from _validate_condition(condition, kind, where)


def _validate_condition(condition: Document, kind: str, at: str) -> Errors:
    yield from field.required_well_formed(f"{at}.type", kind, check_label_key, "is required")
    yield from field.required_one_of(f"{at}.status", condition.get("status"), STATUSES)
    yield from field.at_least(
        f"{at}.observedGeneration",
        condition.get("observedGeneration"),
        0,
        "must be greater than or equal to zero",
    )
    yield from field.present(f"{at}.lastTransitionTime", condition.get("lastTransitionTime"))
    reason = condition.get("reason") or ""
    if not reason:
        yield field.required(f"{at}.reason")
    else:
        yield from field.short_enough(f"{at}.reason", reason, 1024)
        if not _match_reason(reason):
            yield field.invalid(f"{at}.reason", reason, _REASON_MESSAGE)
    yield from field.short_enough(f"{at}.message", condition.get("message") or "", 32768)
