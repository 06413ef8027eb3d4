"""Resolves kinds by name, short name or object, for built-in and custom kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.objects.kind import Kind
from weir.objects.kinds import KINDS, find_kind
from weir.objects.served_kinds import ServedKinds


class ObjectError(ValueError):
    """What was given to a cluster is no object it can take; the message says what is missing."""


def kind_of(document: Any, served: ServedKinds) -> Kind:
    """Return the row of the kind that *document* says it is of. Raises ObjectError with what it does not say.

    >>> kind_of({"a": "b"}, ServedKinds())
    Traceback (most recent call last):
    weir.simulation.named_kinds.ObjectError: not a Kubernetes object: it has no apiVersion (its fields: a)
    """
    if not isinstance(document, Mapping):
        raise ObjectError(f"not a Kubernetes object: {type(document).__name__} {document!r}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str):
            fields = ", ".join(map(str, document)) or "none"
            raise ObjectError(f"not a Kubernetes object: it has no {field} (its fields: {fields})")
    api_version, kind = document["apiVersion"], document["kind"]
    custom = (row for row in served.joined() if row.api_version == api_version and row.kind == kind)
    found = find_kind(api_version, kind) or next(custom, None)
    if found is None:
        others = sorted({row.api_version for row in (*KINDS, *served.joined()) if row.kind == kind})
        hint = f"; it is served in {', '.join(others)}" if others else ""
        raise ObjectError(f"this cluster serves no {kind} in {api_version}{hint}")
    if not isinstance(document.get("metadata"), Mapping):
        raise ObjectError(f"{kind} without metadata: it needs at least a name")
    return found


def kind_called(name: str, served: ServedKinds | None = None) -> Kind:
    """Return the row of a kind by its name, plural, short name or, as kubectl takes it, plural and group.

    >>> kind_called("deploy").kind, kind_called("Pod").kind, kind_called("leases.coordination.k8s.io").kind
    ('Deployment', 'Pod', 'Lease')
    """
    for kind in _preferred(served):
        names = (kind.kind, kind.plural, kind.singular, *kind.short_names, f"{kind.plural}.{kind.group}")
        if kind.stored and name in names:
            return kind
    raise ValueError(f"no kind is called {name!r}")


def _preferred(served: ServedKinds | None) -> Iterator[Kind]:
    """Yield the kinds of the table, then custom ones, each kind's preferred version first."""
    yield from KINDS
    if served is not None:
        versions = served.groups()
        yield from sorted(served.joined(), key=lambda row: versions[row.group].index(row.version))
