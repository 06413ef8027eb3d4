"""Ownership and merge structure of built-in kinds: leaf, granular, keyed list or set.

Spec: apiserver.md 6 "managedFields" (keyed list, set, granular map, atomic). Compiled from the field table, one node
per struct, on first use.
"""

from __future__ import annotations

import json
from enum import Enum
from functools import cache
from typing import Any, Final

from weir.objects import schema
from weir.objects.strict_decoder import zero_value


class Relation(Enum):
    """What ownership of a value means."""

    LEAF = "one leaf"
    STRUCT = "by declared field"
    MAP = "by key, any key"
    KEYED = "list of items found by their key fields"
    SET = "list of distinct scalars"


class Node:
    """One place in a kind's schema. `atomic` leaves are lists or objects that are owned whole."""

    __slots__ = ("_fields", "_names", "_table", "atomic", "item", "keys", "other", "relation")

    def __init__(
        self,
        relation: Relation,
        *,
        atomic: bool = False,
        struct_name: str = "",
        item: Node | None = None,
        keys: tuple[tuple[str, Any], ...] = (),
        fields: dict[str, Node] | None = None,
        other: Node | None = None,
    ) -> None:
        self.relation = relation
        self.atomic = atomic
        self.item = item
        self.keys = keys  #: key fields with the values they have when absent (None: no value)
        self._names = struct_name
        self._fields: dict[str, Node] | None = fields
        self.other = other  #: of fields that are kept without being declared
        self._table: dict[str, tuple[str, Node | None]] | None = None

    @property
    def table(self) -> dict[str, tuple[str, Node | None]]:
        """The declared fields again, made for speed: name → (path element, node; None for leaves)."""
        if self._table is None:
            self._table = {
                name: ("f:" + name, None if node.relation is Relation.LEAF else node)
                for name, node in self.fields.items()
            }
        return self._table

    @property
    def fields(self) -> dict[str, Node]:
        """The declared fields of a struct."""
        if self._fields is None:
            declared = schema.struct(self._names).fields.values() if self._names else ()
            self._fields = {field.name: _field_node(field) for field in declared}
        return self._fields

    def child(self, name: str) -> Node | None:
        """Return the node of a field or map key; None for a field the schema does not declare."""
        if self.relation is Relation.STRUCT:
            return self.fields.get(name, self.other)
        return self.item

    def __repr__(self) -> str:
        return f"Node({self.relation.name}{' ' + self._names if self._names else ''})"


LEAF: Final = Node(Relation.LEAF)
ATOMIC: Final = Node(Relation.LEAF, atomic=True)
SET: Final = Node(Relation.SET)
#: What no schema describes: objects by key, at any depth, all else as one leaf.
DEDUCED: Final = Node(Relation.MAP)
DEDUCED.item = DEDUCED


def root_node(struct: schema.Struct) -> Node:
    """Return the node of a whole kind."""
    return _struct_node(struct.name)


@cache
def _struct_node(name: str) -> Node:
    return ATOMIC if schema.struct(name).atomic else Node(Relation.STRUCT, struct_name=name)


def _field_node(field: schema.Field) -> Node:
    shape = field.shape
    if field.atomic:
        return ATOMIC
    if shape.kind == "struct" and field.map_type == "granular":  # although the struct says it is atomic
        return Node(Relation.STRUCT, struct_name=shape.struct_name)
    if shape.kind == "list" and shape.item is not None:
        if field.list_type == "set":
            return SET
        return _keyed_node(shape.item.struct_name, field.keys)
    return _shape_node(shape)


@cache
def _keyed_node(item: str, keys: tuple[str, ...]) -> Node:
    return Node(Relation.KEYED, item=_struct_node(item), keys=key_defaults(item, keys))


@cache
def key_defaults(item: str, keys: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """Return the key fields of a list of *item*, sorted, with the values they have when absent."""
    fields = schema.struct(item).fields
    return tuple((key, _when_absent(fields[key])) for key in sorted(keys))


def _when_absent(field: schema.Field) -> Any:
    """Return the value a key field has where it is not written; None when it then is no part of the key."""
    if field.default is not None or field.omit_empty or field.shape.pointer:
        return field.default
    return zero_value(field.shape)


def _shape_node(shape: schema.Shape) -> Node:
    if shape.kind == "struct":
        return _struct_node(shape.struct_name)
    if shape.kind == "map" and shape.item is not None:
        return Node(Relation.MAP, item=_shape_node(shape.item))
    if shape.kind == "list":
        return ATOMIC
    return ATOMIC if shape.kind in ("RawExtension", "FieldsV1") else LEAF


class Unkeyed(ValueError):
    """An item of a keyed list that cannot be distinguished from the others."""


def item_key(item: Any, keys: tuple[tuple[str, Any], ...]) -> str:
    """Return the path element of a keyed item, `k:{…}`; raises Unkeyed when it has none of its keys.

    >>> item_key({"containerPort": 80}, (("containerPort", None), ("protocol", "TCP")))
    'k:{"containerPort":80,"protocol":"TCP"}'
    """
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise Unkeyed(f"associative list with keys may not have {what}")
    if len(keys) == 1:  # conditions, containers, addresses: most lists there are
        name, absent = keys[0]
        value = item.get(name, absent)
        if type(value) is str and _is_plain(value):
            return f'k:{{"{name}":"{value}"}}'
    parts = []
    for name, absent in keys:
        value = item.get(name, absent)
        if value is None:
            continue
        if type(value) is str and _is_plain(value):
            parts.append(f'"{name}":"{value}"')
        elif type(value) is int:
            parts.append(f'"{name}":{value}')
        else:
            parts.append(f'"{name}":{json.dumps(value, separators=(",", ":"), ensure_ascii=False)}')
    if not parts:
        names = " ".join(f'"{name}"' for name, _ in keys)
        raise Unkeyed(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{{{','.join(parts)}}}"


def value_key(value: Any) -> str:
    """Return the path element of a set's member: `v:<JSON>`."""
    if type(value) is str and _is_plain(value):
        return f'v:"{value}"'
    return "v:" + json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _is_plain(text: str) -> bool:
    """Whether *text* stands in JSON as it is."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
