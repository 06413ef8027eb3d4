"""Validation of Binding, posted by itself or to pods/binding."""

from __future__ import annotations

from weir.validate import field
from weir.validate.field import Context, Document, Errors


def validate_target(binding: Document) -> Errors:
    """Yield what is wrong with sending a pod to a node."""
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        yield field.not_supported("target.kind", target["kind"], ("Node", "<empty>"))
    if not target.get("name"):
        yield field.required("target.name")


def validate_binding(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a Binding posted by itself; it is never stored."""
    yield from validate_target(new)
