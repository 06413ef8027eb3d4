"""Field ownership of what lowering changes: it stays with, or returns to, the manager that applied the object.

Spec: stock.md 3. What is stored differs from what was written, and a server-side apply takes that for a conflict with
the manager that wrote it. So the webhook takes lowered fields from managers that update, and of those that apply, the
owners stay while the lowered value does (`with_owners`). A pod's tolerations are changed by weir itself as well; the
server gives a changed field to the writer in the very write that changes it, so that ownership is given back by a write
of its own, with nothing but managedFields in it (`given_back`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Document = dict[str, Any]

_FIELD: Final = "f:tolerations"


def given_back(
    managed: Sequence[Mapping[str, Any]], own_manager: str, *, released: bool = False
) -> list[Document] | None:
    """Return the managedFields with the tolerations given back to who applied the pod; None when nothing is to do.

    The one who applied the pod is the one who owns its containers: without these there is no pod. Where there is none,
    and they are to be *released*, they are nobody's.
    """
    applied = next(
        (
            i
            for i, entry in enumerate(managed)
            if entry.get("operation") == "Apply"
            and "f:containers" in _spec(entry)
            and not entry.get("subresource")
        ),
        None,
    )
    own = next(
        (
            i
            for i, entry in enumerate(managed)
            if entry.get("manager") == own_manager
            and entry.get("operation") == "Update"
            and not entry.get("subresource")
            and _FIELD in _spec(entry)
        ),
        None,
    )
    if own is None or (applied is None and not released):
        return None
    result = [dict(entry) for entry in managed]
    if applied is not None:
        result[applied]["fieldsV1"] = _with_spec(managed[applied], {**_spec(managed[applied]), _FIELD: {}})
    left = {name: value for name, value in _spec(managed[own]).items() if name != _FIELD}
    result[own]["fieldsV1"] = _with_spec(managed[own], left)
    return [entry for entry in result if entry.get("fieldsV1")]


#: What lowering replaces in a spec; the API server tracks each as one field.
_NODE_AFFINITY: Final = ("affinity", "nodeAffinity")
_LOWERED: Final = (
    ("tolerations",),
    (*_NODE_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution"),
    (*_NODE_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution"),
    ("nodeAffinity", "required"),
)


def with_owners(
    lowered: Document, new: Mapping[str, Any], old: Mapping[str, Any], spec: tuple[str, ...]
) -> Document:
    """Return *lowered*, made of *new*, with the owners of the fields that lowering changed in the spec at *spec*."""
    metadata = lowered.get("metadata") or {}
    managed: list[Document] = metadata.get("managedFields") or []
    if not managed:
        return lowered
    before: list[Document] = (old.get("metadata") or {}).get("managedFields") or []
    for leaf in _LOWERED:
        path = (*spec, *leaf)
        value = _at(lowered, path)
        if value is None or value == _at(new, path):
            continue
        same = value == _at(old, path)
        managed = [entry for each in managed if (entry := _owning(each, path, before, same))]
    return {**lowered, "metadata": {**metadata, "managedFields": managed}}


def _owning(
    entry: Document, path: tuple[str, ...], before: Sequence[Document], same: bool
) -> Document | None:
    """Return one manager's *entry* with or without the field at *path*; None when it owns nothing then."""
    fields: Document = entry.get("fieldsV1") or {}
    names = tuple(f"f:{name}" for name in path)
    if entry.get("operation") == "Apply":
        owned = same and any(
            _at(each.get("fieldsV1") or {}, names) is not None
            for each in before
            if _identity(each) == _identity(entry)
        )
        return {**entry, "fieldsV1": _with_field(fields, names)} if owned else entry
    left = _without_field(fields, names)
    if left is fields:
        return entry
    return {**entry, "fieldsV1": left} if left else None


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in ("manager", "operation", "apiVersion", "subresource"))


def _at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _with_field(fields: Document, path: tuple[str, ...]) -> Document:
    if not path:
        return fields
    return {**fields, path[0]: _with_field(fields.get(path[0]) or {}, path[1:])}


def _without_field(fields: Document, path: tuple[str, ...]) -> Document:
    """Return *fields* without the one at *path*; itself when it is not there."""
    name, *rest = path
    if name not in fields:
        return fields
    kept = {key: value for key, value in fields.items() if key != name}
    if not rest:
        return kept
    inner = _without_field(fields[name], tuple(rest))
    if inner is fields[name]:
        return fields
    return {**kept, name: inner} if inner else kept


def _spec(entry: Mapping[str, Any]) -> Document:
    return (entry.get("fieldsV1") or {}).get("f:spec") or {}


def _with_spec(entry: Mapping[str, Any], spec: Document) -> Document:
    fields = {name: value for name, value in (entry.get("fieldsV1") or {}).items() if name != "f:spec"}
    return {**fields, "f:spec": spec} if spec else fields
