"""Would this match condition of a webhook compile, and say yes or no?

Spec: admissionregistration.k8s.io/v1 `matchConditions`; cel.md 9.1. What a condition may name: `object`, `oldObject`,
`namespaceObject`, `request` (with its fields' types) and `authorizer`. A result whose type is not known is refused.
Not here: whether a condition holds (weir.apiserver.webhooks.match_conditions).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from weir.cel import types
from weir.cel.env import Env, ObjectType
from weir.cel.library import KUBERNETES
from weir.cel.lowering import ProgramError
from weir.cel.program import build, check_expression
from weir.cel.source import CompileError
from weir.validate.field import Errors, internal, invalid

__all__ = ["validate_expression"]

_TEXTS: Final = types.list_of(types.STRING)
_TEXT_BY_NAME: Final = types.map_of(types.STRING, types.STRING)


def validate_expression(expression: str, at: str) -> Errors:
    """Yield why an expression is no match condition."""
    try:
        checked = check_expression(expression, environment())
    except CompileError as error:
        yield invalid(at, expression, f"compilation failed: {error}")
        return
    if checked.type != types.BOOL:
        yield invalid(at, expression, f"must evaluate to bool but got {checked.type}")
        return
    try:
        build(checked)
    except ProgramError as error:
        yield internal(at, f"program instantiation failed: {error}")


@cache
def environment() -> Env:
    """Return what a condition may use, with the types it is checked against."""
    request, *inner = _request()
    namespace, *parts = _namespace()
    variables = {
        "object": types.DYN,
        "oldObject": types.DYN,
        "namespaceObject": namespace.type,
        "request": request.type,
        "authorizer": types.opaque("kubernetes.authorization.Authorizer"),
        "authorizer.requestResource": types.opaque("kubernetes.authorization.ResourceCheck"),
    }
    return Env(KUBERNETES, variables, (request, *inner, namespace, *parts))


def _strings(*names: str) -> dict[str, types.Type]:
    return dict.fromkeys(names, types.STRING)


def _request() -> tuple[ObjectType, ...]:
    """Return the type of `request` and those of its parts."""
    kind = ObjectType("kubernetes.GroupVersionKind", _strings("group", "version", "kind"))
    resource = ObjectType("kubernetes.GroupVersionResource", _strings("group", "version", "resource"))
    extra = types.map_of(types.STRING, _TEXTS)
    user = ObjectType(
        "kubernetes.UserInfo", {**_strings("username", "uid"), "groups": _TEXTS, "extra": extra}
    )
    request = ObjectType(
        "kubernetes.AdmissionRequest",
        {
            **_strings("subResource", "requestSubResource", "name", "namespace", "operation"),
            "kind": kind.type,
            "requestKind": kind.type,
            "resource": resource.type,
            "requestResource": resource.type,
            "userInfo": user.type,
            "dryRun": types.BOOL,
            "options": types.DYN,
        },
    )
    return request, kind, resource, user


def _namespace() -> tuple[ObjectType, ...]:
    """Return the type of `namespaceObject` and those of its parts."""
    spec = ObjectType("kubernetes.NamespaceSpec", {"finalizers": _TEXTS})
    condition = ObjectType(
        "kubernetes.NamespaceCondition",
        {**_strings("status", "type", "message", "reason"), "lastTransitionTime": types.TIMESTAMP},
    )
    status = ObjectType(
        "kubernetes.NamespaceStatus", {"conditions": types.list_of(condition.type), "phase": types.STRING}
    )
    metadata = ObjectType(
        "kubernetes.NamespaceMetadata",
        {
            **_strings("name", "generateName", "namespace", "UID", "resourceVersion"),
            **dict.fromkeys(("labels", "annotations"), _TEXT_BY_NAME),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), types.TIMESTAMP),
            **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), types.INT),
            "finalizers": _TEXTS,
        },
    )
    namespace = ObjectType(
        "kubernetes.Namespace", {"metadata": metadata.type, "spec": spec.type, "status": status.type}
    )
    return namespace, metadata, spec, status, condition
