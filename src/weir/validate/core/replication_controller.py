"""Validation of ReplicationController."""

from __future__ import annotations

from weir.validate import field
from weir.validate.apps import parts_of, validate_replica_status
from weir.validate.core.pod_template import (
    validate_not_negative,
    validate_selected_template,
)
from weir.validate.field import Context, Document, Errors
from weir.validate.meta import validate_meta


def validate_replication_controller(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ReplicationController, whose selector is a plain map."""
    spec, _, options = parts_of(new, old, context)
    meta = list(validate_meta(new, old, context))
    if context.subresource == "status":
        yield from meta
        yield from validate_replica_status(new)
        return
    # What upstream declares beside the fields of this kind is found last.
    declared = [error for error in meta if error.field == "metadata.name" and error.type == field.INVALID]
    yield from (error for error in meta if error not in declared)
    selector = spec.get("selector") or {}
    if not selector and not context.raw:
        yield field.required("spec.selector")
    yield from validate_selected_template(
        spec.get("template"), {"matchLabels": selector}, "spec.template", options, "ReplicationController"
    )
    yield from declared
    yield from validate_not_negative(spec, ("replicas", "minReadySeconds"), "spec")
