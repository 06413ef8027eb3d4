"""Validation of RuntimeClass.

Spec: core.md 2.7: its tolerations never take gated operators.
"""

from __future__ import annotations

from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import (
    IMMUTABLE,
    validate_generic_meta,
    validate_labels,
)
from weir.validate.core.resources import validate_container_resources
from weir.validate.core.tolerations import validate_tolerations
from weir.validate.gonames import go_struct
from weir.validate.ratchet import CLOSED
from weir.values.names import check_dns1123_label


def validate_runtime_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a RuntimeClass; its handler never changes."""
    yield from validate_generic_meta(new, old, context)
    handler = new.get("handler") or ""
    overhead = (new.get("overhead") or {}).get("podFixed") or {}
    yield from validate_container_resources({"limits": overhead}, (), "overhead")
    scheduling = new.get("scheduling") or {}
    if selector := scheduling.get("nodeSelector"):
        yield from validate_labels(selector, "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    yield from validate_tolerations(tolerations, "scheduling.tolerations", CLOSED)
    seen: set[tuple[tuple[str, object], ...]] = set()
    for i, toleration in enumerate(tolerations):
        if (same := tuple(sorted(toleration.items()))) in seen:
            yield field.duplicate(f"scheduling.tolerations[{i}]", go_struct("Toleration", toleration))
        seen.add(same)
    if not handler:
        yield field.required("handler")
    else:
        for message in check_dns1123_label(handler):
            yield field.invalid("handler", handler, message.replace("63 characters", "63 bytes"))
    if old is not None and handler != (old.get("handler") or ""):
        yield field.invalid("handler", None, IMMUTABLE)
