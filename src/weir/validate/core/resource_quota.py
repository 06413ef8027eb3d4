"""Validation of ResourceQuota.

Spec: upstream's rules: names of countable resources. Enforcement is in weir.apiserver.admission.
"""

from __future__ import annotations

from typing import Final

from weir.validate import field
from weir.validate.core.resources import (
    is_standard,
    validate_amount,
    validate_resource_name,
)
from weir.validate.field import Context, Document, Enum, Errors
from weir.validate.meta import validate_meta

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
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield field.required(f"{at}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield field.invalid(f"{at}.values", values, detail)
    else:
        yield field.invalid(f"{at}.operator", Enum(operator), "not a valid selector operator")
