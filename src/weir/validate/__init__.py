"""API validation with the API server's rules, messages and order of errors.

Spec: core.md 2 "API validation", apiserver.md 13, dra.md 1.15. All errors of an object are returned at once.
`validate` takes documents as written in files; `validate_served` takes what the API server has decoded and defaulted.
"""

from __future__ import annotations

from typing import Any, Protocol

from weir.fields.documents import document_version, validate_shape
from weir.fields.field import FieldError, context_for, required, within_reason
from weir.gates import Gates, GatesLike
from weir.objects import kinds, v1alpha4, versions
from weir.validate.registry import find_rule

__all__ = ["FieldError", "validate", "validate_served"]

_RELAXED = "resource.k8s.io/v1alpha4"


class ServedKind(Protocol):
    """What validation needs of a served kind (weir.objects.kind.Kind)."""

    @property
    def group(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def namespaced(self) -> bool: ...


def validate_served(
    document: dict[str, Any],
    old: dict[str, Any] | None,
    kind: ServedKind,
    gates: Gates,
    *,
    subresource: str = "",
    relaxed: bool = False,
) -> list[FieldError]:
    """Return what is wrong with *document* replacing *old*; None for *old* means a create.

    Documents of resource.k8s.io are in the layout of v1; *relaxed* says that they were written in v1alpha4.
    """
    rule = find_rule(kind.group, kind.kind)
    return within_reason(
        rule(document, old, context_for(gates, subresource, kind.namespaced, False, relaxed))
    )


def validate(
    document: dict[str, Any],
    old: dict[str, Any] | None = None,
    gates: GatesLike = None,
    subresource: str = "",
) -> list[FieldError]:
    """Return what the API server would say about *document* as a person wrote it.

    >>> pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
    ...        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"key": "a", "operator": "In"}]}}
    >>> print(*validate(pod))
    spec.tolerations[0].operator: Unsupported value: "In": supported values: "Equal", "Exists"
    """
    relaxed = isinstance(document, dict) and document.get("apiVersion") == _RELAXED
    if relaxed:
        document = v1alpha4.relax(document.get("kind") or "", document)
    wrong = list(validate_shape(document)) or ([] if old is None else list(validate_shape(old)))
    if wrong:
        return wrong
    missing = [required(name) for name in ("apiVersion", "kind") if not document.get(name)]
    version, name = document_version(document), document.get("kind") or ""
    kind = kinds.find_kind(version, name)
    context = context_for(Gates.of(gates), subresource, kind is None or kind.namespaced, True, relaxed)
    if kind is not None and kind.hub:
        document = versions.to_hub(kind.group, kind.version, name, document)
        if old is not None:
            old = versions.to_hub(kind.group, document_version(old).rpartition("/")[2], name, old)
    rule = find_rule(version.rpartition("/")[0], name)
    return [*missing, *rule(document, old, context)]
