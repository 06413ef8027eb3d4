"""Validation of LimitRange.

Spec: upstream's rules: limits that do not contradict each other. Enforcement is in weir.apiserver.admission.
"""

from __future__ import annotations

from typing import Any, Final

from weir.validate import field
from weir.validate.core.resources import (
    amount,
    validate_container_only,
    validate_resource_name,
)
from weir.validate.field import Context, Document, Enum, Errors
from weir.validate.meta import validate_meta
from weir.values.names import check_label_key

_LIMIT_PARTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def validate_limit_range(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a LimitRange: each type once, and min ≤ defaultRequest ≤ default ≤ max."""
    for error in validate_meta(new, old, context):
        if error.type != field.REQUIRED or error.field != "metadata.name":  # the server makes up a name
            yield error
    seen: set[str] = set()
    for i, limit in enumerate((new.get("spec") or {}).get("limits") or ()):
        at, kind = f"spec.limits[{i}]", limit.get("type") or ""
        messages = check_label_key(kind)
        yield from field.each_invalid(f"{at}.type", Enum(kind), messages)
        if not messages and kind not in ("Container", "Pod", "PersistentVolumeClaim") and "/" not in kind:
            yield field.invalid(f"{at}.type", Enum(kind), "must be a standard limit type or fully qualified")
        if kind in seen:
            yield field.duplicate(f"{at}.type", Enum(kind))
        seen.add(kind)
        yield from _validate_limit(limit, kind, at)


def _validate_limit(limit: Document, kind: str, at: str) -> Errors:
    parts: dict[str, dict[str, Any]] = {part: limit.get(part) or {} for part in _LIMIT_PARTS}
    for part in _LIMIT_PARTS:
        for name in sorted(parts[part]):
            yield from validate_resource_name(name, f"{at}.{part}[{name}]")
            if kind in ("Container", "Pod"):
                yield from validate_container_only(name, f"{at}.{part}[{name}]")
    if kind == "Pod":
        for part in ("default", "defaultRequest"):
            if parts[part]:
                yield field.forbidden(f"{at}.{part}", "may not be specified when `type` is 'Pod'")
    if (
        kind == "PersistentVolumeClaim"
        and not parts["min"].get("storage")
        and not parts["max"].get("storage")
    ):
        yield field.required(
            f"{at}.limits", "either minimum or maximum storage value is required, but neither was provided"
        )
    for name in sorted({name for part in parts.values() for name in part}):
        yield from _validate_order(parts, name, at)


#: What may not exceed what: the two parts, what the message says, where it is reported, and whose amount it shows.
_ORDERED: Final = (
    ("min", "max", "min value {low} is greater than max value {high}", "min", "min"),
    ("defaultRequest", "max", "default request value {low} is greater than max value {high}", "defaultRequest",
     "defaultRequest"),
    ("min", "defaultRequest", "min value {low} is greater than default request value {high}", "defaultRequest",
     "defaultRequest"),
    ("min", "default", "min value {low} is greater than default value {high}", "default", "min"),
    ("defaultRequest", "default", "default request value {low} is greater than default limit value {high}",
     "defaultRequest", "defaultRequest"),
    ("default", "max", "default value {low} is greater than max value {high}", "default", "max"),
)  # fmt: skip


def _validate_order(parts: dict[str, dict[str, Any]], name: str, at: str) -> Errors:
    for low, high, message, where, shown in _ORDERED:
        if name in parts[low] and name in parts[high]:
            below, above = amount(parts[low][name]), amount(parts[high][name])
            if below > above:
                detail = message.format(low=below, high=above)
                yield field.invalid(f"{at}.{where}[{name}]", str(amount(parts[shown][name])), detail)
    ratio = parts["maxLimitRequestRatio"].get(name)
    if ratio is not None and amount(ratio) < amount("1"):
        detail = f"ratio {amount(ratio)} is less than 1"
        yield field.invalid(f"{at}.maxLimitRequestRatio[{name}]", str(amount(ratio)), detail)
