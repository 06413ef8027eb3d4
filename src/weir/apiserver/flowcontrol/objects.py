"""Reconciliation rules of bootstrap flow control objects, and dangling schemas.

Pure. A mandatory object always gets its fixed spec back (except the shares of level `exempt`); a suggested one only
while its annotation says so or it is unchanged. An unknown object with the annotation is from an older release and is
deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.objects.flow_control import AUTO_UPDATE, EXEMPT, GROUP, LEVEL, Row, rows
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.validate.gonames import equal

__all__ = ["FLOW_SCHEMA", "PRIORITY_LEVEL", "dangling", "is_unwanted", "kind_of", "new_object", "revised"]

Document = dict[str, Any]
FLOW_SCHEMA, PRIORITY_LEVEL = by_kind(f"{GROUP}/v1", "FlowSchema"), by_kind(f"{GROUP}/v1", LEVEL)
DANGLING = "Dangling"
#: How Kubernetes' own strings are read as booleans.
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def kind_of(row: Row) -> Kind:
    """Return the kind of a row."""
    return PRIORITY_LEVEL if row.kind == LEVEL else FLOW_SCHEMA


def new_object(row: Row) -> Document:
    """Return the object as it is first written."""
    return {"metadata": {"name": row.name, "annotations": {AUTO_UPDATE: "true"}}, "spec": row.spec}


def _auto_update(stored: Mapping[str, Any]) -> bool | None:
    """Return what the annotation says; None when it says nothing that can be read."""
    return _BOOLEANS.get(((stored.get("metadata") or {}).get("annotations") or {}).get(AUTO_UPDATE, ""))


def revised(row: Row, stored: Mapping[str, Any]) -> Document | None:
    """Return what the stored object has to become; None when it may stay as it is."""
    metadata = stored.get("metadata") or {}
    said = _auto_update(stored)
    update = row.mandatory or (metadata.get("generation") == 1 if said is None else said)
    spec: Document = stored.get("spec") or {}
    wanted = row.spec
    if row.kind == LEVEL and row.name == EXEMPT and spec.get("exempt") is not None:
        wanted = {**wanted, "exempt": spec["exempt"]}
    changed = update and not equal(f"{row.kind}Spec", spec, wanted)
    if said == update and not changed:
        return None
    annotations = {**(metadata.get("annotations") or {}), AUTO_UPDATE: "true" if update else "false"}
    return {
        **stored,
        "metadata": {**metadata, "annotations": annotations},
        "spec": row.spec if changed else spec,
    }


def is_unwanted(stored: Mapping[str, Any], kind: str) -> bool:
    """Return whether *stored* is an object that an older release started with."""
    name = stored["metadata"]["name"]
    return _auto_update(stored) is True and not any(row.kind == kind and row.name == name for row in rows())


def dangling(schema: Mapping[str, Any], has_level: bool, now: str) -> Document | None:
    """Return the condition that the status of *schema* has to get; None when it is there."""
    level = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name") or ""
    about = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    wanted = {
        "status": "False" if has_level else "True",
        "reason": "Found" if has_level else "NotFound",
        "message": f"{about} and it exists" if has_level else f"{about} but there is no such object",
    }
    for condition in (schema.get("status") or {}).get("conditions") or ():
        if condition.get("type") == DANGLING and all(condition.get(name) == wanted[name] for name in wanted):
            return None
    return {"type": DANGLING, "lastTransitionTime": now, **wanted}
