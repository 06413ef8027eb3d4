"""Validation of defaults against their own schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from weir.customresources.embedded import validate_embedded
from weir.customresources.pruning import prune
from weir.customresources.schema import Schema, has_rules, read_schema
from weir.customresources.values import NO_FIELD, validate_value
from weir.validate.field import Document, Errors, FieldError, invalid


def validate_defaults(schema: Document, at: str, *, pruned: bool = True) -> Errors:
    """Yield what is wrong with the defaults of *schema*; with *pruned* they may not have unknown fields."""
    for default, found, place in _defaults(schema, at):
        read = read_schema(found)
        if pruned:
            left = {"": msgspec.to_builtins(default)}
            prune(left, Schema(properties={"": read}))
            if left[""] != default:
                yield invalid(place, default, "must not have unknown fields")
        wrong = list(validate_embedded(default, read, "")) or validate_value(default, read)
        yield from (_moved(error, place) for error in wrong or _broken_rules(default, read))


def _broken_rules(default: Any, read: Schema) -> list[FieldError]:
    """Return the rules that a default breaks, were it new or there before."""
    if not has_rules(read):
        return []
    from weir.customresources.expressions import compile_rules, evaluate_rules

    rules = compile_rules(read, root=read.embedded)
    if rules is None:
        return []
    return evaluate_rules(rules, default, default)[0] or evaluate_rules(rules, default, None)[0]


def _defaults(schema: Document, at: str) -> Iterator[tuple[Any, Document, str]]:
    if schema.get("default") is not None:
        yield schema["default"], schema, f"{at}.default"
    if isinstance(schema.get("items"), dict):
        yield from _defaults(schema["items"], f"{at}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _defaults(child, f"{at}.properties[{name}]")


def _moved(error: FieldError, place: str) -> FieldError:
    if error.field in ("", NO_FIELD):
        return FieldError(error.type, place, error.value, error.detail)
    return FieldError(error.type, f"{place}.{error.field}", error.value, error.detail)
