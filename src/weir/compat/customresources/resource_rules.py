"""Validation of custom resources.

Metadata, then values, replica counts, embedded resources, lists of type set or map. On update, unchanged invalid
values are ratcheted. `x-kubernetes-validations` are evaluated last, and only if types, lengths and required fields
are valid.

Ratcheting validation: drops errors about values that an update did not change. Values are correlated by field name, and
by keys in lists of type map; other lists are compared as a whole.
"""

from __future__ import annotations

import re
from typing import Any, Final

from weir.compat.customresources.expressions import compile_rules, evaluate_rules
from weir.compat.customresources.field_paths import find_at
from weir.compat.customresources.schema import Schema, has_rules
from weir.compat.customresources.served import CustomResourceKind
from weir.compat.customresources.values import NO_FIELD, validate_lists, validate_value
from weir.fields.field import (
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    Context,
    Document,
    Errors,
    FieldError,
    Tolerated,
    context_for,
    invalid,
    required,
)
from weir.fields.meta import validate_generic_meta, validate_object_meta
from weir.gates import ALL_FEATURES
from weir.values.names import check_dns1035_label, check_path_segment

# ── validation of embedded resources (`x-kubernetes-embedded-resource`) ──


def validate_embedded(value: Any, schema: Schema | None, at: str = "") -> Errors:
    """Yield what is wrong with the type and metadata of every resource embedded in *value*."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.embedded:
            yield from _resource(value, at)
        for key, item in value.items():
            if item.__class__ not in (dict, list):
                continue
            child = schema.properties.get(key)
            if child is not None:
                yield from validate_embedded(item, child, f"{at}.{key}" if at else key)
            elif isinstance(schema.additional, Schema):
                yield from validate_embedded(item, schema.additional, f"{at}[{key}]")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from validate_embedded(item, schema.items, f"{at}[{i}]")


def _resource(value: Document, at: str) -> Errors:
    head = f"{at}." if at else ""
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield required(f"{head}{name}")
    if "apiVersion" in value:
        yield from _text(value["apiVersion"], f"{head}apiVersion", _version_problem)
    if "kind" in value:
        yield from _text(value["kind"], f"{head}kind", _kind_problem)
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        named = {**metadata, "name": metadata.get("name") or "fakename"}
        context = context_for(ALL_FEATURES, "", bool(metadata.get("namespace")), False)
        yield from validate_object_meta(named, context, check_path_segment, f"{head}metadata")


def _text(value: Any, at: str, problem_of: Any) -> Errors:
    if not isinstance(value, str):
        yield invalid(at, value, "must be a string")
    elif not value:
        yield invalid(at, value, "must not be empty")
    elif problem := problem_of(value):
        yield invalid(at, value, problem)


def _version_problem(version: str) -> str:
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


def _kind_problem(kind: str) -> str:
    messages = check_dns1035_label(kind.lower())
    return "may have mixed case, but should otherwise match: " + ",".join(messages) if messages else ""


# ── validation of custom resources ──


_INT32_MAX: Final = 2**31 - 1
#: What a rule could stumble over.
_BLOCKING: Final = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})


_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_NOTHING: Final = object()


def without_unchanged(wrong: list[FieldError], new: Any, old: Any, schema: Schema) -> list[FieldError]:
    """Return the errors about values that *old* does not have as they are.

    >>> from weir.fields.field import invalid
    >>> schema = Schema(properties={"a": Schema(), "b": Schema()})
    >>> without_unchanged([invalid("a", 1, ""), invalid("b", 2, "")], {"a": 1, "b": 2}, {"a": 1, "b": 1}, schema)
    [FieldError('b: Invalid value: 2')]
    """
    return [error for error in wrong if not _unchanged(error.field, new, old, schema)]


def _unchanged(path: str, new: Any, old: Any, schema: Schema | None) -> bool:
    """Whether the value at *path*, or the last one on the way that can be compared, is as it was."""
    for found in () if path == "<nil>" else _STEP.finditer(path):
        name, position = found[1], found[2]
        if new is _NOTHING or old is _NOTHING:
            return False
        if name is not None:
            if not isinstance(new, dict) or not isinstance(old, dict):
                break
            if name not in new:  # a field that is required: judged by the object it is missing in
                break
            new, old = new[name], old.get(name, _NOTHING)
            schema = _child(schema, name)
        else:
            index = int(position)
            if not isinstance(new, list) or not isinstance(old, list) or schema is None:
                break
            if schema.list_type != "map" or index >= len(new):
                break
            new, old = new[index], _same_item(new[index], old, schema)
            schema = schema.items
    return old is not _NOTHING and bool(new == old)


def _child(schema: Schema | None, name: str) -> Schema | None:
    if schema is None:
        return None
    found = schema.properties.get(name)
    if found is None and isinstance(schema.additional, Schema):
        return schema.additional
    return found


def _same_item(item: Any, old: list[Any], schema: Schema) -> Any:
    def key_of(one: Any) -> tuple[Any, ...]:
        return tuple(one.get(key) for key in schema.map_keys) if isinstance(one, dict) else (one,)

    wanted = key_of(item)
    return next((one for one in old if key_of(one) == wanted), _NOTHING)


def validate_resource(
    new: Document, old: Document | None, kind: CustomResourceKind, context: Context
) -> list[FieldError]:
    """Return what is wrong with *new*, which replaces *old*."""
    errors = list(validate_generic_meta(new, old, context))
    schema, status_only = kind.schema, context.subresource == "status"
    fits = kind.says.fits(new)
    if fits:
        pass  # neither values nor lists have anything wrong with them
    elif status_only:
        inner = schema.properties.get("status")
        if "status" in new and inner is not None:
            errors += _values(new["status"], None if old is None else old.get("status"), inner, "status")
    else:
        errors += _values(new, old, schema, "")
    if scale := kind.says.scale:
        paths = ("statusReplicasPath",) if status_only else ("specReplicasPath", "statusReplicasPath")
        for name in paths:
            errors += _replicas(new, scale.get(name) or "")
        errors += _selector(new, scale.get("labelSelectorPath") or "")
    if not status_only and not fits:
        errors += validate_embedded(new, schema)
    if fits:
        pass
    elif old is None or not any(validate_lists(old, schema)):
        errors += validate_lists(new, schema)
    return errors + rule_errors(errors, new, old, schema, kind.says.kept)


def rule_errors(
    errors: list[FieldError], new: Document, old: Document | None, schema: Schema, kept: dict[str, Any]
) -> list[FieldError]:
    """Return the rules that *new* breaks, compiled once and *kept*; some *errors* keep rules from being checked."""
    if "rules" not in kept:
        kept["rules"] = _compiled(schema)
    if kept["rules"] is None:
        return []
    if any(error.type in _BLOCKING for error in errors):
        detail = (
            "some validation rules were not checked because the object was invalid; correct the existing errors "
            "to complete validation"
        )
        return [FieldError(INVALID, NO_FIELD, None, detail)]

    broken, tolerated = evaluate_rules(kept["rules"], new, old, ratchets=old is not None)
    return [*broken, *(Tolerated(one.type, one.field, one.value, one.detail) for one in tolerated)]


def _compiled(schema: Schema) -> Any:
    if not has_rules(schema):
        return None

    return compile_rules(schema)


def _values(new: Any, old: Any, schema: Schema, at: str) -> list[FieldError]:
    wrong = validate_value(new, schema)
    if wrong and old is not None:
        wrong = without_unchanged(wrong, new, old, schema)
    return [_below(error, at) for error in wrong] if at else wrong


def _below(error: FieldError, at: str) -> FieldError:
    field = at if error.field == "<nil>" else f"{at}.{error.field}"
    return FieldError(error.type, field, error.value, error.detail)


def _replicas(new: Document, path: str) -> Errors:
    value = find_at(new, path)
    if value is None:
        return
    if type(value) is not int:
        yield invalid(path, 0, f"{path} accessor error: {value} is of the type {_go(value)}, expected int64")
    elif value < 0:
        yield invalid(path, value, "should be a non-negative integer")
    elif value > _INT32_MAX:
        yield invalid(path, value, f"should be less than or equal to {_INT32_MAX}")


def _selector(new: Document, path: str) -> Errors:
    value = find_at(new, path) if path else None
    if value is not None and not isinstance(value, str):
        yield invalid(
            path, "", f"{path} accessor error: {value} is of the type {_go(value)}, expected string"
        )


def _go(value: Any) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")
