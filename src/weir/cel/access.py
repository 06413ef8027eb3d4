"""Access to parts of values: fields, keys, indices, and whether they are present.

Spec: cel.md 6 "Evaluation" (select, index, has), 8 (optional access). Numbers find each other as map keys; lists accept
integral doubles as indices; anything that has no parts answers `no such key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weir.cel.env import ObjectType
from weir.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from weir.cel.packed import Empty
from weir.cel.types import Kind
from weir.cel.values import (
    ABSENT,
    INT_MAX,
    DefaultMap,
    MixedMap,
    UInt,
    Value,
    find_key,
    object_as_map,
    type_of,
)
from weir.cel.work import spend

#: Python class of bound objects → their declared type.
Objects = Mapping[type, ObjectType]
NO_OBJECTS: Final[Objects] = {}


#: What can be a key; anything else is refused by upstream's name for it.
KEYS: Final = frozenset((bool, int, UInt, float, str))
_GO_NAMES: Final = {
    Kind.BOOL: "types.Bool",
    Kind.INT: "types.Int",
    Kind.UINT: "types.Uint",
    Kind.DOUBLE: "types.Double",
    Kind.STRING: "types.String",
    Kind.BYTES: "types.Bytes",
    Kind.NULL: "types.Null",
    Kind.TIMESTAMP: "types.Timestamp",
    Kind.DURATION: "types.Duration",
    Kind.LIST: "*types.baseList",
    Kind.MAP: "*types.baseMap",
    Kind.TYPE: "*types.Type",
    Kind.OPTIONAL: "*types.Optional",
}


_GO_NAMES_OF_LIBRARIES: Final = {
    "google.protobuf.Empty": "*types.protoObj",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.URL": "cel.URL",
    "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}


def go_name(value: Value) -> str:
    """The name upstream prints for the representation of *value*."""
    declared = type_of(value)
    return _GO_NAMES.get(declared.kind) or _GO_NAMES_OF_LIBRARIES.get(declared.name, declared.name)


def invalid_key(key: Value) -> str:
    """What is said about a key that can be none."""
    return f"invalid qualifier type: {go_name(key)}"


def key_text(key: Value) -> str:
    """A key as messages print it."""
    if key is True:
        return "true"
    if key is False:
        return "false"
    if key.__class__ is float:
        return str(int(key)) if key.is_integer() and abs(key) < 1e21 else repr(key)
    if key.__class__ is UInt:
        return str(int(key))
    return str(key)


def missing(key: Value) -> EvaluationError:
    """The error for a key that is not there."""
    if key.__class__ is str and len(key) > 256:
        spend(len(key) >> 4)
    return EvaluationError(f"no such key: {key_text(key)}")


def list_index(key: Value) -> int:
    """*key* as a list index."""
    kind = key.__class__
    if kind is int or (kind is UInt and key <= INT_MAX):
        return int(key)
    if kind is UInt:
        raise EvaluationError(f"unsupported index value {key_text(key)} in list")
    if kind is float:
        if key.is_integer() and abs(key) < 2**63:
            return int(key)
        raise EvaluationError(f"unsupported index value {key_text(key)} in list")
    raise EvaluationError(f"unsupported index type '{type_of(key).name}' in list")


def find(container: Value, key: Value, objects: Objects = NO_OBJECTS) -> Value:
    """The part of *container* under *key*, or ABSENT; an error only for an impossible list index."""
    if key.__class__ not in KEYS:
        raise EvaluationError(invalid_key(key))
    kind = container.__class__
    if kind is dict or kind is MixedMap:
        return find_key(container, key)
    if kind is list or kind is tuple:
        index = list_index(key)
        return container[index] if 0 <= index < len(container) else ABSENT
    if kind is DefaultMap:
        found = find_key(container, key)
        return container.default if found is ABSENT else found
    if kind is Empty:  # the only message that stays one; even a test for its fields fails
        raise EvaluationError(f"no such field '{key}'" if key.__class__ is str else NO_SUCH_OVERLOAD)
    declared = objects.get(kind)
    if declared is not None and key in declared.fields:
        return declared.read(container, str(key))
    return ABSENT


def get(container: Value, key: Value, objects: Objects = NO_OBJECTS) -> Value:
    """The part of *container* under *key*, or an evaluation error."""
    found = find(container, key, objects)
    if found is ABSENT:
        if container.__class__ is list or container.__class__ is tuple:
            raise EvaluationError(f"index out of bounds: {key_text(key)}")
        raise missing(key)
    return found


def contains(container: Value, key: Value) -> bool:
    """Whether the map *container* really has *key* (a default does not count)."""
    return find_key(container, key) is not ABSENT


def as_map(value: Value, objects: Objects) -> Value:
    """*value*, an object that this environment declares as the map of its fields."""
    return object_as_map(value) if value.__class__ in objects else value
