"""Parameters of a policy binding.

Spec: admissionregistration.k8s.io/v1 `paramKind`, `paramRef`. A policy without a paramKind is evaluated once without
parameters; with several parameters, once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from weir.objects.kind import Kind
from weir.selectors import labels

Document = Mapping[str, Any]
FindKind = Callable[[str, str], Kind | None]
"""(apiVersion, kind) → its row, None when it is not served."""


class Objects(Protocol):
    """Where parameters are found (weir.apiserver.admission.attributes.Reader)."""

    def get_now(self, kind: Kind, namespace: str, name: str, /) -> Document | None: ...

    def list_now(self, kind: Kind, namespace: str | None, /) -> Sequence[Document]: ...


class NoParams(Exception):
    """The parameters cannot be had, and why."""


class UnknownParamKind(NoParams):
    """The policy's paramKind is not served."""


def param_kind(policy: Document, find: FindKind) -> Kind | None:
    """Return the kind of a policy's parameters, None when it has none; raises UnknownParamKind."""
    wanted = policy.get("spec", {}).get("paramKind")
    if wanted is None:
        return None
    api_version, kind = wanted.get("apiVersion") or "", wanted.get("kind") or ""
    found = find(api_version, kind)
    if found is None:
        group, _, version = api_version.rpartition("/")
        shown = f"{group}/{version}, Kind={kind}"
        raise UnknownParamKind(f"failed to find resource referenced by paramKind: '{shown}'")
    return found


def collect_params(
    kind: Kind | None, ref: Document | None, namespace: str, objects: Objects
) -> Sequence[Document | None]:
    """Return what the policy is evaluated with, None for "without"; raises NoParams.

    *namespace* is that of the write; parameters of a kind that has namespaces are looked for there, unless *ref*
    names another.
    """
    if kind is None or ref is None:
        return (None,)
    where = ref.get("namespace") or ""
    if kind.namespaced:
        where = where or namespace
        if not where:
            raise NoParams(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif where:
        raise NoParams("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    name = ref.get("name")
    if name:
        one = objects.get_now(kind, where, name)
        found = [] if one is None else [one]
    else:
        found = _selected(
            ref.get("selector") or {}, objects.list_now(kind, where if kind.namespaced else None)
        )
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise NoParams("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _selected(selector: Document, candidates: Sequence[Document]) -> list[Document]:
    try:
        wanted = labels.from_object(selector) or labels.EVERYTHING
    except labels.SelectorError as error:
        raise NoParams(str(error)) from error
    selected = [one for one in candidates if wanted.matches((one.get("metadata") or {}).get("labels") or {})]
    return sorted(selected, key=lambda one: str(one["metadata"].get("name")))
