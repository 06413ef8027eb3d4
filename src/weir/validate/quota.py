"""May a namespace be limited so? ResourceQuota and LimitRange.

Spec: upstream's rules: names of countable resources, and limits that do not contradict each other.
Not here: whether a pod exceeds them (weir.apiserver.admission).
"""

from __future__ import annotations

from typing import Any, Final

from weir.validate.context import Context
from weir.validate.field import Document, Enum, Errors, duplicate, forbidden, invalid, required
from weir.validate.meta import same, validate_meta
from weir.validate.resources import amount, is_standard, validate_amount, validate_resource_name

_SCOPES: Final = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_LIMIT_PARTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def validate_resource_quota(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ResourceQuota; its scopes never change."""
    yield from validate_meta(new, old, context)
    spec = new.get("spec") or {}
    yield from _validate_amounts(spec.get("hard") or {}, "spec.hard")
    yield from _validate_scopes(spec)
    status = new.get("status") or {}
    for part in ("hard", "used"):
        if context.subresource == "status":
            yield from _validate_amounts(status.get(part) or {}, f"status.{part}")
    if old is not None:
        before = (old.get("spec") or {}).get("scopes")
        if not same(spec.get("scopes"), before):
            yield invalid("spec.scopes", spec.get("scopes"), "field is immutable")


def _validate_amounts(amounts: Document, at: str) -> Errors:
    for name in sorted(amounts):
        where = f"{at}[{name}]"
        yield from validate_resource_name(name, where)
        if "/" not in name and not is_standard(name):
            yield invalid(where, name, "must be a standard resource for quota")
        yield from validate_amount(name, amounts[name], where)


def _validate_scopes(spec: Document) -> Errors:
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
    if {"BestEffort", "NotBestEffort"} <= set(scopes) or {"Terminating", "NotTerminating"} <= set(scopes):
        yield invalid("spec.scopes", scopes, "conflicting scopes")


def validate_limit_range(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a LimitRange: each type once, and min ≤ defaultRequest ≤ default ≤ max."""
    yield from validate_meta(new, old, context)
    seen: set[str] = set()
    for i, limit in enumerate((new.get("spec") or {}).get("limits") or ()):
        at, kind = f"spec.limits[{i}]", limit.get("type") or ""
        if kind not in ("Container", "Pod", "PersistentVolumeClaim") and "/" not in kind:
            yield invalid(f"{at}.type", Enum(kind), "must be a standard limit type or fully qualified")
        if kind in seen:
            yield duplicate(f"{at}.type", Enum(kind))
        seen.add(kind)
        yield from _validate_limit(limit, kind, at)


def _validate_limit(limit: Document, kind: str, at: str) -> Errors:
    parts: dict[str, dict[str, Any]] = {part: limit.get(part) or {} for part in _LIMIT_PARTS}
    for part in _LIMIT_PARTS:
        for name in sorted(parts[part]):
            yield from validate_resource_name(name, f"{at}.{part}[{name}]")
    if kind == "Pod":
        for part in ("default", "defaultRequest"):
            if parts[part]:
                yield forbidden(f"{at}.{part}", "may not be specified when `type` is 'Pod'")
    if (
        kind == "PersistentVolumeClaim"
        and not parts["min"].get("storage")
        and not parts["max"].get("storage")
    ):
        yield required(
            f"{at}.limits", "either minimum or maximum storage value is required, but neither was provided"
        )
    for name in sorted({name for part in parts.values() for name in part}):
        yield from _validate_order(parts, name, at)


_ORDERED: Final = (
    ("min", "max", "max", "min value {low} is greater than max value {high}", "min"),
    ("defaultRequest", "max", "defaultRequest", "default request value {low} is greater than max value {high}", ""),
    ("min", "defaultRequest", "defaultRequest", "min value {low} is greater than default request value {high}", ""),
    ("min", "default", "min", "min value {low} is greater than default value {high}", "default"),
    ("defaultRequest", "default", "defaultRequest",
     "default request value {low} is greater than default limit value {high}", ""),
    ("default", "max", "default", "default value {low} is greater than max value {high}", ""),
)  # fmt: skip


def _validate_order(parts: dict[str, dict[str, Any]], name: str, at: str) -> Errors:
    for low, high, _, message, where in _ORDERED:
        if name in parts[low] and name in parts[high]:
            below, above = amount(parts[low][name]), amount(parts[high][name])
            if below > above:
                place = where or ("defaultRequest" if "defaultRequest" in (low, high) else low)
                detail = message.format(low=below, high=above)
                yield invalid(f"{at}.{place}[{name}]", str(amount(parts[place][name])), detail)
    ratio = parts["maxLimitRequestRatio"].get(name)
    if ratio is not None and amount(ratio) < amount("1"):
        detail = f"ratio {amount(ratio)} is less than 1"
        yield invalid(f"{at}.maxLimitRequestRatio[{name}]", str(amount(ratio)), detail)
