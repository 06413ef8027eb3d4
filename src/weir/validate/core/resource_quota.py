"""Validation of ResourceQuota and LimitRange.

Spec: upstream's rules: names of countable resources, limits that do not contradict each other. Enforcement is in
weir.apiserver.admission.
"""

from __future__ import annotations

from typing import Any, Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import validate_meta
from weir.validate.core.resources import (
    amount,
    is_standard,
    validate_amount,
    validate_container_only,
    validate_resource_name,
)
from weir.values.names import check_label_key

_SCOPES: Final = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_PODS: Final = frozenset({"pods"})
_COMPUTE: Final = _PODS | {
    "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
}  # fmt: skip
_IN_SCOPE: Final = {
    "BestEffort": _PODS,
    "CrossNamespacePodAffinity": _COMPUTE,
    "NotBestEffort": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "Terminating": _COMPUTE,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_ONLY_EXISTS: Final = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
ONLY_EXISTS: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


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
        if {*(spec.get("scopes") or ())} != {*(before or ())}:
            yield field.invalid("spec.scopes", spec.get("scopes"), "field is immutable")


def _validate_amounts(amounts: Document, at: str) -> Errors:
    for name in sorted(amounts):
        where = f"{at}[{name}]"
        yield from validate_resource_name(name, where)
        if "/" not in name and not is_standard(name):
            yield field.invalid(where, name, "must be a standard resource for quota")
        yield from validate_amount(name, amounts[name], where)


def _validate_scopes(spec: Document) -> Errors:
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            yield field.invalid("spec.scopes", scopes, "unsupported scope")
        for _ in _out_of_scope(spec, scope):
            yield field.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    for requirement in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        yield from _validate_scope(requirement, "spec.scopeSelector.matchExpressions")
    if {"BestEffort", "NotBestEffort"} <= set(scopes) or {"Terminating", "NotTerminating"} <= set(scopes):
        yield field.invalid("spec.scopes", scopes, "conflicting scopes")


def _out_of_scope(spec: Document, scope: str) -> list[str]:
    """Return the resources of a quota that a scope says nothing about."""
    allowed = _IN_SCOPE.get(scope)
    if allowed is None:
        return []
    return [
        name
        for name in sorted(spec.get("hard") or {})
        if is_standard(name) and "/" not in name and name not in allowed
    ]


def _validate_scope(requirement: Document, at: str) -> Errors:
    name, operator = requirement.get("scopeName") or "", requirement.get("operator") or ""
    if name not in _SCOPES:
        yield field.invalid(f"{at}.scopeName", Enum(name), "unsupported scope")
    values = requirement.get("values") or []
    if name in _ONLY_EXISTS and operator != "Exists":
        yield field.invalid(f"{at}.operator", Enum(operator), ONLY_EXISTS)
    if operator in ("In", "NotIn"):
        yield from field.present(
            f"{at}.values",
            values,
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        )
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield field.invalid(f"{at}.values", values, detail)
    else:
        yield field.invalid(f"{at}.operator", Enum(operator), "not a valid selector operator")


# ── LimitRange ────────────────────────────────────────────────────────────────────────────────────────


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
        yield from field.unique(kind, seen, f"{at}.type", Enum(kind))
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
