"""Validation of schema keywords of a CustomResourceDefinition.

Checks that need only the schema. The server walks maps, so errors of properties come in any order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from weir.compat.customresources.field_paths import FieldPathError, find_field
from weir.compat.customresources.internal_form import SCHEMA_NAMES, go_schema
from weir.fields import field
from weir.fields.field import Document, Errors

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_META: Final = frozenset({"metadata", "kind", "apiVersion"})
_NEWLINES: Final = re.compile(r"[\n\r]")
#: What the root may say when the status is written by itself, in Go's names.
_AT_ROOT: Final = (
    *("Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum"),
    *("MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required"),
    *("Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations"),
)
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


@dataclass(frozen=True, slots=True)
class Options:
    """What an update need not keep to, because the stored definition does not either."""

    valid_types: bool = True
    structural: bool = True
    atomic_sets: bool = True
    sound_map_keys: bool = True
    pruned_defaults: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the schema a walk is."""

    options: Options
    root: bool = False
    inside_meta: bool = False
    no_defaults: str | None = None  #: why there may be no defaults here


def validate_root(schema: Document, at: str, has_status: bool) -> Errors:
    """Yield what only the root of a schema may not say."""
    if has_status:
        for wire, go in SCHEMA_NAMES.items():
            if schema.get(wire) in (None, "", False, [], {}):
                continue
            if go == "Type":
                if schema["type"] != "object":
                    detail = (
                        'only "object" is allowed as the type at the root of the schema if the status '
                        "subresource is enabled"
                    )
                    yield field.invalid(f"{at}.type", schema["type"], detail)
                    break
            elif go not in _AT_ROOT:
                detail = (
                    f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema if the status "
                    "subresource is enabled"
                )
                yield field.invalid(at, go_schema(schema), detail)
                break
    if schema.get("nullable"):
        yield field.forbidden(f"{at}.nullable", "nullable cannot be true at the root")


def validate_schema(schema: Document, at: str, options: Options) -> Errors:
    """Yield what is wrong with the keywords of *schema* and of those within it."""
    yield from _walk(schema, at, _Place(options, root=True))


def _walk(schema: Document | None, at: str, place: _Place) -> Errors:
    if schema is None:
        return
    yield from _keywords(schema, at, place)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field.forbidden(f"{at}.uniqueItems", detail)
    below = replace(place, root=False)
    additional, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if additional is not None:
        if properties and additional is not True:
            detail = "additionalProperties and properties are mutual exclusive"
            yield field.forbidden(f"{at}.additionalProperties", detail)
        if isinstance(additional, dict):
            inner = below
            if place.inside_meta:
                inner = replace(below, no_defaults="inside additionalProperties applying to object metadata")
            yield from _walk(additional, f"{at}.additionalProperties", inner)
    embeds = place.root or schema.get("x-kubernetes-embedded-resource")
    for name, child in properties.items():
        inner = below
        if embeds and name in _META:
            inner = replace(below, inside_meta=True)
            if place.root:
                inner = replace(inner, no_defaults=f"in top-level {name}")
        yield from _walk(child, f"{at}.properties[{name}]", inner)
    yield from _walk(schema.get("not"), f"{at}.not", below)
    for several in ("allOf", "oneOf", "anyOf"):
        yield from field.each(_walk, schema.get(several), f"{at}.{several}", below)
    for name, child in (schema.get("definitions") or {}).items():
        yield from _walk(child, f"{at}.definitions[{name}]", below)
    items = schema.get("items")
    if isinstance(items, list):
        yield from field.each(_walk, items, f"{at}.items", below)
    else:
        yield from _walk(items, f"{at}.items", below)
    for name, child in (schema.get("dependencies") or {}).items():
        yield from _walk(child if isinstance(child, dict) else None, f"{at}.dependencies[{name}]", below)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield field.invalid(f"{at}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _topology(schema, at, place.options)
    yield from _rules(schema, at)


def _keywords(schema: Document, at: str, place: _Place) -> Errors:
    kind = schema.get("type") or ""
    if place.options.valid_types and kind and kind not in TYPES:
        yield field.not_supported(f"{at}.type", kind, TYPES)
    if schema.get("default") is not None and place.no_defaults is not None:
        yield field.forbidden(f"{at}.default", f"must not be set {place.no_defaults}".rstrip())
    for name in _UNSUPPORTED:
        value = schema.get(name)
        if value or (value is not None and name in ("additionalItems", "dependencies", "$ref")):
            yield field.forbidden(f"{at}.{name}", f"{name} is not supported")
    if kind == "null":
        yield field.forbidden(f"{at}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield field.forbidden(f"{at}.items", "items must be a schema object and not an array")
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        yield field.forbidden(
            f"{at}.x-kubernetes-embedded-resource", "must not be used inside of resource meta"
        )


# ── lists and maps for server-side apply ─────────────────────────────────────────────────────────


def _topology(schema: Document, at: str, options: Options) -> Errors:
    kind = schema.get("type") or ""
    map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    single = items if isinstance(items, dict) else None
    if map_type is not None and kind != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        yield field.invalid(f"{at}.type", kind, detail) if kind else field.required(f"{at}.type", detail)
    yield from field.one_of(f"{at}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    if list_type is not None and kind != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield field.invalid(f"{at}.type", kind, detail) if kind else field.required(f"{at}.type", detail)
    elif options.atomic_sets and list_type == "set" and single is not None:
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        inner = single.get("x-kubernetes-list-type")
        if single.get("type") == "array" and inner not in (None, "atomic"):
            yield field.invalid(f"{at}.items.x-kubernetes-list-type", inner, detail)
        elif single.get("type") == "object" and single.get("x-kubernetes-map-type") != "atomic":
            yield field.invalid(f"{at}.items.x-kubernetes-map-type", inner, detail)
    yield from field.one_of(f"{at}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = f"{at}.x-kubernetes-list-type"
        yield field.required(place, detail) if list_type is None else field.invalid(place, list_type, detail)
    if list_type == "map":
        yield from _map_keys(items, keys, at)
    if options.sound_map_keys:
        yield from map_key_problems(schema, at)


def _map_keys(items: object, keys: list[str], at: str) -> Errors:
    yield from field.present(
        f"{at}.x-kubernetes-list-map-keys", keys, "must not be empty if x-kubernetes-list-type is map"
    )
    if items is None:
        yield field.required(f"{at}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if not isinstance(items, dict):
        shown = {"Schema": None, "JSONSchemas": [go_schema(one) for one in items]}  # type: ignore[attr-defined]
        yield field.invalid(
            f"{at}.items", shown, "must only have a single schema if x-kubernetes-list-type is map"
        )
        return
    kind = items.get("type") or ""
    if kind != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield field.invalid(f"{at}.items.type", kind, detail)
        return
    seen: set[str] = set()
    properties = items.get("properties") or {}
    for key in keys:
        if key not in properties:
            detail = "entries must all be names of item properties"
            yield field.invalid(f"{at}.x-kubernetes-list-map-keys", keys, detail)
        elif properties[key].get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield field.invalid(f"{at}.items.properties[{key}].type", kind, detail)
        if key in seen:
            yield field.invalid(
                f"{at}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries"
            )
        seen.add(key)


def map_key_problems(schema: Document, at: str) -> Errors:
    """Yield why items of a set or map are not distinguishable: nullable, or optional keys."""
    items, list_type = schema.get("items"), schema.get("x-kubernetes-list-type")
    if not isinstance(items, dict) or list_type not in ("set", "map"):
        return
    if items.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield field.forbidden(f"{at}.items.nullable", detail)
    if list_type != "map":
        return
    always = items.get("required") or ()
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        found = (items.get("properties") or {}).get(key)
        if found is None:
            continue
        place = f"{at}.items.properties[{key}]"
        if key not in always and found.get("default") is None:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
                "property"
            )
            yield field.required(f"{place}.default", detail)
        if found.get("nullable"):
            detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield field.forbidden(f"{place}.nullable", detail)


# ── x-kubernetes-validations, all but the expressions ────────────────────────────────────────────


def _rules(schema: Document, at: str) -> Errors:
    for i, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        place = f"{at}.x-kubernetes-validations[{i}]"
        text, message = rule.get("rule") or "", rule.get("message") or ""
        if not text.strip():
            yield field.required(f"{place}.rule", "rule is not specified")
        elif message and not message.strip():
            yield field.invalid(f"{place}.message", message, "must be non-empty if specified")
        elif _NEWLINES.search(message.strip()):
            yield field.invalid(f"{place}.message", message, "must not contain line breaks")
        elif _NEWLINES.search(text.strip()) and not message.strip():
            yield field.required(f"{place}.message", "message must be specified if rule contains line breaks")
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            yield field.required(
                f"{place}.messageExpression", "messageExpression must be non-empty if specified"
            )
        reason = rule.get("reason")
        yield from field.one_of(f"{place}.reason", reason, _REASONS)
        yield from _rule_path(schema, rule.get("fieldPath") or "", f"{place}.fieldPath")


def _rule_path(schema: Document, path: str, at: str) -> Errors:
    if not path:
        return
    if not path.strip():
        yield field.invalid(at, path, "must be non-empty if specified")
    if _NEWLINES.search(path):
        yield field.invalid(at, path, "must not contain line breaks")
    try:
        find_field(schema, path)
    except FieldPathError:
        yield field.invalid(at, path, "must be a valid path")
