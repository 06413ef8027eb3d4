"""Ownership and merge structure of custom resources, from their schema.

Lists of type map or set merge by key or value, other lists are atomic; objects are granular unless atomic. Preserved
unknown fields are treated by their form: objects granular, lists atomic.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from weir.apiserver.patches.configuration import element_text, problems_of, scalar_problem
from weir.apiserver.patches.strategic import go_text
from weir.apiserver.patches.structure import (
    ATOMIC,
    DEDUCED,
    LEAF,
    SET,
    Node,
    Relation,
    Unkeyed,
    item_key,
    root_node,
    value_key,
)
from weir.compat.customresources.schema import Schema
from weir.compat.customresources.served import CustomResourceKind
from weir.objects import schema
from weir.objects import schema as objects
from weir.objects.document import KindRow, root_of
from weir.objects.strict_decoder import printed

# ── structure and zero value of a kind, for built-in and custom kinds alike ──


_NOTHING: Final[dict[str, Any]] = {"metadata": {}}


def node_of(kind: KindRow) -> Node:
    """Return how objects of *kind* are owned and merged."""
    return custom_node(kind) if isinstance(kind, CustomResourceKind) else root_node(root_of(kind))


def zero_of(kind: KindRow) -> dict[str, Any]:
    """Return what the server prints for an object of *kind* with nothing set; do not change it."""
    return _NOTHING if isinstance(kind, CustomResourceKind) else zero_document(root_of(kind))


@cache
def zero_document(root: schema.Struct) -> dict[str, Any]:
    """Return what the server prints for an object with nothing set; do not change it."""
    return printed({}, root)


def fitting_problems(configuration: Any, kind: KindRow) -> list[str]:
    """Return what is wrong with the shape of an applied configuration."""
    if isinstance(kind, CustomResourceKind):
        return custom_problems(configuration, kind)
    return problems_of(configuration, root_of(kind))


_OBJECT_META: Final = "meta.v1.ObjectMeta"
_META: Final = Node(Relation.STRUCT, struct_name=_OBJECT_META)
_RESOURCE: Final = {"apiVersion": LEAF, "kind": LEAF, "metadata": _META}


def custom_node(kind: CustomResourceKind) -> Node:
    """Return the node of a whole kind, made once for its version."""
    kept = kind.says.kept
    if "node" not in kept:
        kept["node"] = _object(kind.schema, embedded=True)
    node: Node = kept["node"]
    return node


def _node(schema: Schema) -> Node:
    kind = schema.types[0] if len(schema.types) == 1 else ""
    if kind == "array":
        if schema.list_type == "set":
            return SET
        if schema.list_type == "map" and schema.items is not None:
            return Node(Relation.KEYED, item=_node(schema.items), keys=_keys(schema))
        return ATOMIC
    if kind == "object":
        return ATOMIC if schema.map_type == "atomic" else _object(schema, embedded=schema.embedded)
    if not schema.types and schema.preserves_unknown:
        return DEDUCED
    return LEAF


def _object(schema: Schema, *, embedded: bool) -> Node:
    if isinstance(schema.additional, Schema) and not schema.properties:
        return Node(Relation.MAP, item=_node(schema.additional))
    fields = {name: _node(one) for name, one in schema.properties.items()}
    if embedded:
        fields |= _RESOURCE
    if not fields:
        return DEDUCED
    return Node(Relation.STRUCT, fields=fields, other=DEDUCED if schema.preserves_unknown else None)


def _keys(schema: Schema) -> tuple[tuple[str, Any], ...]:
    properties = schema.items.properties if schema.items is not None else {}
    return tuple(
        (key, properties[key].default if key in properties else None) for key in sorted(schema.map_keys)
    )


# ── checks of a configuration ────────────────────────────────────────────────────────────────────


def custom_problems(configuration: Any, kind: CustomResourceKind) -> list[str]:
    """Return what is wrong with the shape of an applied configuration, in the words of server-side apply."""
    found: list[str] = []
    _check_object(configuration, kind.schema, "", found, embedded=True)
    return found


def _message(at: str, problem: str) -> str:
    return f"{at}: {problem}" if at else problem


def _check_value(value: Any, schema: Schema, at: str, found: list[str]) -> None:
    if value is None:
        return
    kind = schema.types[0] if len(schema.types) == 1 else ""
    if kind == "object":
        _check_object(value, schema, at, found, embedded=schema.embedded)
    elif kind == "array":
        _check_list(value, schema, at, found)
    elif schema.types:
        shapes = {"string": "string", "boolean": "bool", "integer": "int64", "number": "float64"}
        if problem := scalar_problem(value, shapes.get(kind, "IntOrString")):
            found.append(_message(at, problem))


def _check_object(value: Any, schema: Schema, at: str, found: list[str], *, embedded: bool) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        found.append(_message(at, f"expected map, got &{{{go_text(value)}}}"))
        return
    described = schema.properties or embedded
    if not schema.preserves_unknown and schema.additional in (None, False) and described:
        known = {*schema.properties, *(_RESOURCE if embedded else ())}
        unknown = min((key for key in value if key not in known), default=None)
        if unknown is not None:
            found.append(_message(f"{at}.{unknown}", "field not declared in schema"))
            return
    for key in sorted(value):
        if embedded and key in _RESOURCE:  # the same in every object, whatever the definition says of them
            found += _resource_problems(value[key], key, f"{at}.{key}")
            continue
        one = schema.properties.get(key)
        if one is None and isinstance(schema.additional, Schema):
            one = schema.additional
        if one is not None:
            _check_value(value[key], one, f"{at}.{key}", found)


def _resource_problems(value: Any, key: str, at: str) -> list[str]:
    """Return what is wrong with the apiVersion, kind or metadata of an object."""
    if key == "metadata":
        return problems_of(value, objects.struct(_OBJECT_META), at)
    problem = "" if value is None else scalar_problem(value, "string")
    return [_message(at, problem)] if problem else []


def _check_list(value: Any, schema: Schema, at: str, found: list[str]) -> None:
    if not isinstance(value, list):
        found.append(_message(at, f"expected list, got &{{{go_text(value)}}}"))
        return
    keys, seen = _keys(schema), set()
    for index, entry in enumerate(value):
        where = f"[{index}]"
        if schema.list_type in ("map", "set"):
            try:
                element = item_key(entry, keys) if schema.list_type == "map" else _member(entry)
            except Unkeyed as problem:
                found.append(_message(at, f"element {index}: {problem}"))
                return
            where = element_text(element)
            if element in seen:
                found.append(_message(at, f"duplicate entries for key {where}"))
            seen.add(element)
        if schema.items is not None:
            _check_value(entry, schema.items, at + where, found)


def _member(entry: Any) -> str:
    if isinstance(entry, dict):
        raise Unkeyed("associative list without keys has an element that's a map type")
    if isinstance(entry, list):
        raise Unkeyed("not supported: associative list with lists as elements")
    if entry is None:
        raise Unkeyed("associative list without keys has an element that's an explicit null")
    return value_key(entry)
