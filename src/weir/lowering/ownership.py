"""Field ownership of lowered tolerations, given back to the manager that applied the pod.

Spec: stock.md 3. A pod's tolerations are one field, owned by the manager that changed it last, so the author's next
server-side apply would conflict with weir. Ownership is therefore given back; the hook lowers what is applied again.
The server gives a changed field to the writer in the very write that changes it, so this takes a write of its own, with
nothing but managedFields in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Document = dict[str, Any]

_FIELD: Final = "f:tolerations"


def given_back(managed: Sequence[Mapping[str, Any]], own_manager: str) -> list[Document] | None:
    """Return the managedFields with the tolerations given back to who applied the pod; None when nothing is to do.

    The one who applied the pod is the one who owns its containers: without these there is no pod.
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
    if applied is None or own is None:
        return None
    result = [dict(entry) for entry in managed]
    result[applied]["fieldsV1"] = _with_spec(managed[applied], {**_spec(managed[applied]), _FIELD: {}})
    left = {name: value for name, value in _spec(managed[own]).items() if name != _FIELD}
    result[own]["fieldsV1"] = _with_spec(managed[own], left)
    return [entry for entry in result if entry.get("fieldsV1")]


def _spec(entry: Mapping[str, Any]) -> Document:
    return (entry.get("fieldsV1") or {}).get("f:spec") or {}


def _with_spec(entry: Mapping[str, Any], spec: Document) -> Document:
    fields = {name: value for name, value in (entry.get("fieldsV1") or {}).items() if name != "f:spec"}
    return {**fields, "f:spec": spec} if spec else fields
