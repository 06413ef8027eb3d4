"""CEL environments of admission expressions: the variables `object`, `request`, `params`, `authorizer` and so on.

Spec: admissionregistration.k8s.io/v1; cel.md 9.1.
`request` and `namespaceObject` have declared fields, so a misspelt one is rejected when the policy is written.
`variables` differs per policy: its fields are added as each variable is compiled, so that a variable may use only
earlier ones. Functions that begin with `authorizer` call methods of the same name on the bound value
(weir.apiserver.auth.cel_authorizer in a server; a stub that raises when files are evaluated).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, NoReturn

from weir.cel import types
from weir.cel.env import Env, Library, ObjectType
from weir.cel.library import KUBERNETES
from weir.cel.types import Type
from weir.cel.work import spend

VARIABLES: Final = "kubernetes.variables"
_TEXTS: Final = types.list_of(types.STRING)
_TEXT_BY_NAME: Final = types.map_of(types.STRING, types.STRING)
_AUTHORIZATION: Final = "kubernetes.authorization."


def authorization_type(name: str) -> Type:
    """Return the type of a value that answers about rights: `Authorizer`, `ResourceCheck` …"""
    return types.opaque(f"{_AUTHORIZATION}{name}")


@cache
def environment(params: bool = False, authorizer: bool = True) -> Env:
    """Return what an expression without variables may use."""
    return build(params=params, authorizer=authorizer)


def build(
    *,
    params: bool,
    authorizer: bool,
    variables: ObjectType | None = None,
    objects: tuple[ObjectType, ...] = (),
    documents: Mapping[str, Type] | None = None,
    patches: Library | None = None,
) -> Env:
    """Return an environment; *documents* gives types to `object`, `oldObject` and `params` instead of dyn.

    With *patches*, functions for them, an expression may build patches.
    """
    known = {"object": types.DYN, "oldObject": types.DYN, **({"params": types.DYN} if params else {})}
    known |= {name: of for name, of in (documents or {}).items() if name in known}
    known |= {"namespaceObject": _namespace()[0].type, "request": _request()[0].type}
    if authorizer:
        known["authorizer"] = authorization_type("Authorizer")
        if documents is None:  # upstream forgets it where types are checked
            known["authorizer.requestResource"] = authorization_type("ResourceCheck")
    declared = (*_request(), *_namespace(), *objects)
    if variables is not None:
        known["variables"] = variables.type
        declared = (*declared, variables)
    libraries = _libraries() if patches is None else (*_libraries(), patches)
    return Env(libraries, known, declared, patch_types=patches is not None)


@cache
def _libraries() -> tuple[Library, ...]:
    return tuple(_answered(library) if library.name == "authz" else library for library in KUBERNETES)


def _answered(library: Library) -> Library:
    """Return the declared authorization functions with what they do: a method of the same name is called."""
    functions = tuple(
        replace(f, overloads=tuple(replace(o, impl=partial(_call, f.name)) for o in f.overloads))
        for f in library.functions
    )
    return replace(library, functions=functions)


def _call(method: str, receiver: Any, *arguments: Any) -> Any:
    spend(sum(map(len, arguments)))
    return getattr(receiver, method)(*arguments)


def _strings(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, types.STRING)


class Unknown:
    """A value that is not known: reading one of its fields raises the exception *reason*."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason

    def read(self, field: str) -> NoReturn:
        raise self.reason


class UnknownUser(Unknown):
    """Instead of `request.userInfo`."""


class UnknownNamespace(Unknown):
    """Instead of `namespaceObject`."""


def _mapped(name: str, fields: Mapping[str, Type], unknown: type[Unknown] | None = None) -> ObjectType:
    """Return a type whose values are documents, or *unknown*."""
    return ObjectType(f"kubernetes.{name}", fields, unknown, mapped=True, read=Unknown.read)


@cache
def _request() -> tuple[ObjectType, ...]:
    """Return the type of `request` and those of its parts."""
    kind = _mapped("GroupVersionKind", _strings("group", "version", "kind"))
    resource = _mapped("GroupVersionResource", _strings("group", "version", "resource"))
    extra = types.map_of(types.STRING, _TEXTS)
    user = _mapped(
        "UserInfo", {**_strings("username", "uid"), "groups": _TEXTS, "extra": extra}, unknown=UnknownUser
    )
    request = _mapped(
        "AdmissionRequest",
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


@cache
def _namespace() -> tuple[ObjectType, ...]:
    """Return the type of `namespaceObject` and those of its parts."""
    spec = _mapped("NamespaceSpec", {"finalizers": _TEXTS})
    condition = _mapped(
        "NamespaceCondition",
        {**_strings("status", "type", "message", "reason"), "lastTransitionTime": types.TIMESTAMP},
    )
    status = _mapped("NamespaceStatus", {"conditions": types.list_of(condition.type), "phase": types.STRING})
    metadata = _mapped(
        "NamespaceMetadata",
        {
            **_strings("name", "generateName", "namespace", "UID", "resourceVersion"),
            **dict.fromkeys(("labels", "annotations"), _TEXT_BY_NAME),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), types.TIMESTAMP),
            **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), types.INT),
            "finalizers": _TEXTS,
        },
    )
    parts = {"metadata": metadata.type, "spec": spec.type, "status": status.type}
    namespace = _mapped("Namespace", parts, unknown=UnknownNamespace)
    return namespace, metadata, spec, status, condition
