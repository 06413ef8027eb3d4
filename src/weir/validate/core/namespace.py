"""Validation of Namespace.

Spec: apiserver.md 13 (names of namespaces).
"""

from __future__ import annotations

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import (
    NOT_A_FINALIZER,
    STANDARD_FINALIZERS,
    validate_meta,
)
from weir.values.names import check_dns1123_label, check_label_key


def validate_namespace(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Namespace, whose name is a DNS label."""
    yield from validate_meta(new, old, context, check_dns1123_label)
    if old is not None and context.subresource == "status":
        yield from _validate_phase(new)
    if old is not None and context.subresource != "finalize":
        return
    for finalizer in (new.get("spec") or {}).get("finalizers") or ():
        messages = check_label_key(finalizer)
        yield from field.each_invalid("spec.finalizers", finalizer, messages)
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            yield field.invalid("spec.finalizers", finalizer, NOT_A_FINALIZER)


def _validate_phase(new: Document) -> Errors:
    phase = (new.get("status") or {}).get("phase") or ""
    if (new.get("metadata") or {}).get("deletionTimestamp"):
        if phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            yield field.invalid("status.Phase", Enum(phase), detail)
    elif phase not in ("", "Active"):
        yield field.invalid(
            "status.Phase", Enum(phase), "may only be 'Active' if `deletionTimestamp` is empty"
        )
