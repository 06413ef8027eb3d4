"""Validation of StorageVersionMigration.

The resource is immutable; it ends once, with success or failure.
"""

from __future__ import annotations

import re
from typing import Final

from weir.fields.field import Context, Document, Errors, invalid, required
from weir.fields.meta import IMMUTABLE, validate_object_meta, validate_object_meta_update
from weir.validate.conditions import validate_conditions
from weir.values.names import check_dns1035_label, check_dns1123_subdomain

_CONDITIONS: Final = "status.conditions"
_CONDITION: Final = ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message")
_match_version = re.compile("[1-9][0-9]*").fullmatch


def validate_storage_version_migration(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a migration, or with its status."""
    metadata = new.get("metadata") or {}
    if context.subresource == "status" and old is not None:
        yield from validate_object_meta_update(metadata, old.get("metadata") or {})
        yield from _validate_status(new.get("status") or {}, old.get("status") or {})
        return
    yield from validate_object_meta(metadata, context)
    resource = _resource(new)
    if not resource["resource"]:
        yield required("spec.resource.resource", "resource is required to be set")
    elif messages := check_dns1035_label(resource["resource"]):
        yield invalid("spec.resource.resource", resource["resource"], ",".join(messages))
    if resource["group"] and (messages := check_dns1123_subdomain(resource["group"])):
        yield invalid("spec.resource.group", resource["group"], ",".join(messages))
    if old is not None:
        yield from validate_object_meta_update(metadata, old.get("metadata") or {})
        if resource != _resource(old):
            yield invalid("spec", {"Resource": resource}, IMMUTABLE)


def _resource(document: Document) -> dict[str, str]:
    found = (document.get("spec") or {}).get("resource") or {}
    return {"group": found.get("group") or "", "resource": found.get("resource") or ""}


def _validate_status(status: Document, before: Document) -> Errors:
    version, known = status.get("resourceVersion") or "", before.get("resourceVersion") or ""
    if version and not _match_version(version):
        yield invalid("status.resourceVersion", version, f"resource version is not well formed: {version}")
    sent = status.get("conditions")
    conditions = sent or []
    yield from validate_conditions(conditions, _CONDITIONS)
    if known and known != version:
        yield invalid("status.resourceVersion", version, IMMUTABLE)
    parts = [{name: one[name] for name in _CONDITION if name in one} for one in conditions]
    shown = None if sent is None else parts
    if _is_true(status, "Succeeded") and _is_true(status, "Failed"):
        detail = "Both success and failed conditions cannot be true at the same time"
        yield invalid(_CONDITIONS, shown, detail)
    for kind, name in (("Succeeded", "Success"), ("Failed", "Failed")):
        if _is_true(before, kind) and not _is_true(status, kind):
            yield invalid(_CONDITIONS, shown, f"{name} condition cannot be set to false once it is true")


def _is_true(status: Document, kind: str) -> bool:
    found = (one.get("status") for one in status.get("conditions") or () if one.get("type") == kind)
    return next(found, None) == "True"
