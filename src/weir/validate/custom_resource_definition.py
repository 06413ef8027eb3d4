"""Validation of CustomResourceDefinition; the rules are in weir.customresources.definition_rules."""

from __future__ import annotations

from weir.validate.field import Context, Document, Errors


def validate_custom_resource_definition(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a definition; what reads schemas is loaded by the first one."""
    from weir.customresources.definition_rules import validate_definition

    return validate_definition(new, old, context)
