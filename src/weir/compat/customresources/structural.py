"""Validation that a schema is structural.

Messages and their order are the API server's: sorted by text, because it walks maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from weir.cel.library.regex import Regex, RegexError
from weir.fields.field import Document, Errors, FieldError, each, forbidden, invalid, required

_ROOT, _ITEM, _FIELD = "root", "item", "field"
_EMPTY_TYPE: Final = {
    _ROOT: "must not be empty at the root",
    _ITEM: "must not be empty for specified array items",
    _FIELD: "must not be empty for specified object fields",
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
#: keyword of a nested context → why it makes a schema non-structural
_NOT_NESTED: Final = {
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_UNSUPPORTED: Final = {
    "id": "id",
    "$schema": "schema",
    "$ref": "$ref",
    "patternProperties": "patternProperties",
    "dependencies": "dependencies",
    "additionalItems": "additionalItems",
    "definitions": "definitions",
}


def find_unsupported(schema: Document) -> str:
    """Return why no structural schema can be made of *schema* at all; empty when one can.

    >>> find_unsupported({"properties": {"a": {"$ref": "#/b"}}})
    "OpenAPIV3Schema '$ref' is not supported"
    """
    for wire, name in _UNSUPPORTED.items():
        value = schema.get(wire)
        if value or (wire == "additionalItems" and value is not None):
            return f"OpenAPIV3Schema '{name}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return next((found for child in children(schema) if (found := find_unsupported(child))), "")


def children(schema: Document) -> Iterator[Document]:
    """Yield the schemas directly within *schema*."""
    for name in ("items", "not", "additionalProperties", "additionalItems"):
        child = schema.get(name)
        if isinstance(child, dict):
            yield child
        elif isinstance(child, list):
            yield from child
    for name in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(name) or ()
    for name in ("properties", "patternProperties", "definitions", "dependencies"):
        yield from (one for one in (schema.get(name) or {}).values() if isinstance(one, dict))


def validate_structural(schema: Document, at: str) -> list[FieldError]:
    """Return why *schema* is not structural."""
    errors = [*_invariants(schema, _ROOT, at), *_completeness(schema, schema, at, at)]
    return sorted(errors, key=str)


# ── every value has a type ───────────────────────────────────────────────────────────────────────


def _invariants(schema: Document, level: str, at: str) -> Errors:
    kind = schema.get("type") or ""
    items, properties = schema.get("items"), schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    if kind == "array" and items is None:
        yield required(f"{at}.items", "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, _ITEM, f"{at}.items")
    for name, child in properties.items():
        yield from _invariants(child, _FIELD, f"{at}.properties[{name}]")
    if additional is not None:
        if level == _ROOT:
            yield forbidden(f"{at}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _invariants(additional, _FIELD, f"{at}.additionalProperties")
    if int_or_string:
        for name, is_set in (("preserve-unknown-fields", preserves), ("embedded-resource", embedded)):
            if is_set:
                yield invalid(
                    f"{at}.x-kubernetes-{name}", True, "must be false if x-kubernetes-int-or-string is true"
                )
    all_of = schema.get("allOf") or []
    yield from _value_validation(
        schema,
        at,
        skip_any_of=schema.get("anyOf") == _INT_OR_STRING,
        skip_first=bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING,
    )
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{at}.type", kind, detail) if kind else required(f"{at}.type", detail)
    elif not kind and not int_or_string and not preserves:
        yield required(f"{at}.type", _EMPTY_TYPE[level])
    if embedded and additional is not None:
        yield forbidden(
            f"{at}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set"
        )
    if level == _ROOT and kind and kind != "object":
        yield invalid(f"{at}.type", kind, "must be object at the root")
    yield from _metadata_invariants(properties, level == _ROOT, embedded, at)
    if embedded and not preserves and not properties:
        yield required(
            f"{at}.properties",
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields",
        )


def _metadata_invariants(properties: Document, root: bool, embedded: bool, at: str) -> Errors:
    checked = root or embedded
    for name in ("kind", "apiVersion"):
        if checked and name in properties and properties[name].get("type") != "string":
            place = f"{at}.properties[{name}].type"
            yield invalid(place, properties[name].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    place = f"{at}.properties[metadata]"
    if checked and metadata.get("type") != "object":
        yield invalid(f"{place}.type", metadata.get("type") or "", "must be object")
    if root:
        rest = {name: value for name, value in metadata.items() if name not in ("type", "default")}
        if rest.get("properties") and rest["properties"].keys() <= {"name", "generateName"}:
            del rest["properties"]
        if any(value not in (None, False, "", [], {}) for value in rest.values()):
            yield forbidden(
                place,
                "must not specify anything other than name and generateName, but metadata is implicitly "
                "specified",
            )


def _value_validation(schema: Document, at: str, *, skip_any_of: bool, skip_first: bool) -> Errors:
    if not skip_any_of:
        yield from each(_nested, schema.get("anyOf"), f"{at}.anyOf")
    for i, clause in enumerate(schema.get("allOf") or ()):
        yield from _nested(clause, f"{at}.allOf[{i}]", skip_any_of=skip_first and i == 0)
    yield from each(_nested, schema.get("oneOf"), f"{at}.oneOf")
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{at}.not")
    if pattern := schema.get("pattern"):
        try:
            Regex(pattern)
        except RegexError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{at}.pattern", pattern, detail)


def _nested(schema: Document, at: str, skip_any_of: bool = False) -> Errors:
    """Yield what a schema within anyOf, allOf, oneOf or not may not say: it only restricts values."""
    yield from _value_validation(schema, at, skip_any_of=skip_any_of, skip_first=False)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{at}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _nested(child, f"{at}.properties[{name}]")
    if schema.get("type"):
        yield forbidden(f"{at}.type", "must be empty to be structural")
    if schema.get("additionalProperties") not in (None, False):
        yield forbidden(f"{at}.additionalProperties", "must be undefined to be structural")
    for name, detail in _NOT_NESTED.items():
        value: Any = schema.get(name)
        if value is not None and (value or name in ("default", "x-kubernetes-list-type")):
            yield forbidden(f"{at}.{name}", detail)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{at}.properties[metadata]", "must not be specified in a nested context")


# ── what is restricted is declared ───────────────────────────────────────────────────────────────


def _completeness(clause: Document, schema: Document | None, at: str, within: str) -> Errors:
    """Yield the fields that a clause at *within* restricts and the schema at *at* does not declare."""
    if schema is None:
        yield required(at, f"because it is defined in {within}")
        return
    if clause.get("not") is not None:
        yield from _nested_completeness(clause["not"], schema, at, f"{within}.not")
    for name in ("allOf", "anyOf", "oneOf"):
        for i, one in enumerate(clause.get(name) or ()):
            yield from _nested_completeness(one, schema, at, f"{within}.{name}[{i}]")


def _nested_completeness(clause: Document, schema: Document | None, at: str, within: str) -> Errors:
    yield from _completeness(clause, schema, at, within)
    if schema is None:
        return
    if isinstance(clause.get("items"), dict):
        items = schema.get("items")
        inner = items if isinstance(items, dict) else None
        yield from _nested_completeness(clause["items"], inner, f"{at}.items", f"{within}.items")
    declared = schema.get("properties") or {}
    for name, one in (clause.get("properties") or {}).items():
        place, where = f"{at}.properties[{name}]", f"{within}.properties[{name}]"
        if name not in declared:
            yield required(place, f"because it is defined in {where}")
        else:
            yield from _nested_completeness(one, declared[name], place, where)
