"""Evaluates policies from files on manifests from files.

Every manifest is treated as a create by an unknown user. Policies, bindings, parameters, namespaces and definitions
come from the files alone. What only a cluster knows raises `NotJudged` with what it was: the user and their
permissions, a namespace or parameters not in the files. `a || b` is not judged when `a` needs something unknown,
although `b` might decide.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NoReturn

from weir.compat.policies.dispatch import Bound, Outcome, bound_policies, judge
from weir.compat.policies.expressions import UnknownNamespace, UnknownUser, authorization_type
from weir.compat.policies.matching import CREATE, REGISTRATION, policies_apply
from weir.compat.policies.validating import ValidatingPolicy
from weir.objects.defaults import default
from weir.objects.kind import Kind
from weir.objects.kinds import NAMESPACES, find_kind, hub_of
from weir.objects.versions import from_hub, to_hub

Document = Mapping[str, Any]
_POLICY: Final = "ValidatingAdmissionPolicy"
_BINDING: Final = "ValidatingAdmissionPolicyBinding"


class NotJudged(Exception):
    """What a policy needs to know and no file says."""


@dataclass(frozen=True)
class Manifest:
    """One manifest as a write (weir.compat.policies.matching.Write)."""

    kind: Kind
    object: Document
    operation: str = CREATE
    subresource: str = ""
    old: Document | None = None

    @property
    def requested(self) -> Kind:
        return self.kind

    @property
    def name(self) -> str:
        return str((self.object.get("metadata") or {}).get("name") or "")

    @property
    def namespace(self) -> str:
        if not self.kind.namespaced:
            return ""
        return str((self.object.get("metadata") or {}).get("namespace") or "default")


class PolicyFiles:
    """The policies of some files, and what all files of a run say beside them."""

    def __init__(self, policies: Iterable[Any], manifests: Iterable[Any] = ()) -> None:
        """*policies* may hold parameters, namespaces and definitions too; so may *manifests*, which are judged."""
        own = [one for one in policies if _is_object(one)]
        self._own = [self._filled(one) for one in own if _is(one, _POLICY) or _is(one, _BINDING)]
        self._documents = [*own, *(one for one in manifests if _is_object(one))]

    @cached_property
    def bound(self) -> tuple[Bound[ValidatingPolicy], ...]:
        """The policies that a binding puts to use."""
        return bound_policies(
            (one for one in self._own if _is(one, _POLICY)),
            (one for one in self._own if _is(one, _BINDING)),
            self.find_kind,
            ValidatingPolicy,
        )

    @property
    def unbound(self) -> list[str]:
        """The names of policies that no binding puts to use."""
        used = {bound.policy.name for bound in self.bound}
        return [
            name for one in self._own if _is(one, _POLICY) and (name := one["metadata"]["name"]) not in used
        ]

    @property
    def mutating(self) -> list[str]:
        """The names of mutating policies, which are not applied here."""
        changing = (one for one in self._documents if _is(one, "MutatingAdmissionPolicy"))
        return [str(one["metadata"].get("name")) for one in changing]

    def judge(self, document: Any) -> list[tuple[Bound[ValidatingPolicy], Outcome | NotJudged]]:
        """Return what each policy says of a manifest."""
        kind = self.find_kind(*_names(document)) if _is_object(document) else None
        if kind is None or not policies_apply(kind):
            return []
        write = Manifest(kind, self._filled(document))
        outcomes: list[tuple[Bound[ValidatingPolicy], Outcome | NotJudged]] = []
        for bound in self.bound:
            try:
                outcomes.append(
                    (bound, judge((bound,), write, self, lambda as_kind: self._values(write, as_kind)))
                )
            except NotJudged as reason:
                outcomes.append((bound, reason))
        return outcomes

    # --- what policies ask (weir.compat.policies.dispatch.Reader) ---

    def get_now(self, kind: Kind, namespace: str, name: str) -> Document:
        """Return an object of the files; raises NotJudged when none has it."""
        for one in self.list_now(kind, namespace if kind.namespaced else None):
            if one["metadata"].get("name") == name:
                return one
        where = f"{namespace}/" if kind.namespaced else ""
        raise NotJudged(f"{kind.kind} {where}{name} is not among the files")

    def list_now(self, kind: Kind, namespace: str | None) -> list[Document]:
        """Return the objects of the files."""
        return [
            one
            for one in self._documents
            if _names(one) == (kind.api_version, kind.kind)
            and (namespace is None or (one["metadata"].get("namespace") or "default") == namespace)
        ]

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the row of a kind that is served or that a definition of the files makes."""
        known = find_kind(api_version, kind)
        return known if known is not None else self._defined.get((api_version, kind))

    @cached_property
    def _defined(self) -> dict[tuple[str, str], Kind]:
        kinds: dict[tuple[str, str], Kind] = {}
        for one in self._documents:
            if one.get("kind") != "CustomResourceDefinition" or not isinstance(one.get("spec"), dict):
                continue
            spec = one["spec"]
            names, versions = spec.get("names"), spec.get("versions")
            if not isinstance(names, dict) or not isinstance(versions, list):
                continue
            for version in versions:
                row = Kind(
                    str(spec.get("group")),
                    str(version.get("name")) if isinstance(version, dict) else "",
                    str(names.get("kind")),
                    str(names.get("plural")),
                    namespaced=spec.get("scope") != "Cluster",
                )
                kinds[row.api_version, row.kind] = row
        return kinds

    def _filled(self, document: Any) -> dict[str, Any]:
        """Return a manifest with the defaults that a server fills in."""
        made: dict[str, Any] = copy.deepcopy(document)
        kind = find_kind(*_names(made))
        if kind is None:
            return made
        if kind.namespaced and not made["metadata"].get("namespace"):
            made["metadata"]["namespace"] = "default"
        default(made, kind)
        if kind.has_status:
            made.setdefault("status", {})
        return made

    def _values(self, a: Manifest, kind: Kind) -> dict[str, Any]:
        namespace: Any = None
        if a.namespace:
            try:
                namespace = self._filled(self.get_now(NAMESPACES, "", a.namespace))
            except NotJudged as reason:
                namespace = UnknownNamespace(reason)
        own, meant = _request_kind(a.kind), _request_kind(kind)
        request = {
            "kind": meant[0],
            "resource": meant[1],
            "requestKind": own[0],
            "requestResource": own[1],
            **({"name": a.name} if a.name else {}),
            **({"namespace": a.namespace} if a.namespace else {}),
            "operation": a.operation,
            "userInfo": UnknownUser(NotJudged("who writes is not known")),
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        }
        return {
            "object": _as(kind, a.kind, a.object),
            "oldObject": None,
            "request": request,
            "namespaceObject": namespace,
            "authorizer": _Rights("Authorizer"),
            "authorizer.requestResource": _Rights("ResourceCheck"),
        }


class _Rights:
    """Authorizer stub; always raises."""

    def __init__(self, name: str) -> None:
        self.cel_type = authorization_type(name)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotJudged("what the writer may do is not known (authorizer)")


def _as(kind: Kind, own: Kind, document: Document) -> Document:
    """Return a document in another version of its kind."""
    if kind is own or kind.group != own.group:
        return document
    stored: dict[str, Any] = dict(document)
    if own.hub:
        stored = to_hub(own.group, own.version, own.kind, stored)
    if kind is not hub_of(own):
        stored = from_hub(kind.group, kind.version, kind.kind, stored)
    return {**stored, "apiVersion": kind.api_version}


def _request_kind(kind: Kind) -> tuple[dict[str, str], dict[str, str]]:
    version = {"group": kind.group, "version": kind.version}
    return {**version, "kind": kind.kind}, {**version, "resource": kind.plural}


def _is_object(document: Any) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return False
    return all(isinstance(document.get(field), str) for field in ("apiVersion", "kind"))


def _names(document: Document) -> tuple[str, str]:
    return document["apiVersion"], document["kind"]


def _is(document: Document, kind: str) -> bool:
    """Return whether a document is of a kind of policies; one that older versions wrote counts, too."""
    return document["kind"] == kind and str(document["apiVersion"]).startswith(f"{REGISTRATION}/")
