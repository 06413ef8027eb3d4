"""Validation of Lease.

Spec: apiserver.md 13 (Lease).
"""

from __future__ import annotations

from weir.fields import field
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import (
    validate_generic_meta,
)


def validate_lease(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Lease."""
    yield from validate_generic_meta(new, old, context)
    spec = new.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield field.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield field.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
