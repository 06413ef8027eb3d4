"""Validation of CustomResourceDefinition; the rules are in weir.compat.customresources.definition_rules."""

from weir.compat.customresources.definition_rules import (
    validate_definition as validate_custom_resource_definition,
)

__all__ = ["validate_custom_resource_definition"]
