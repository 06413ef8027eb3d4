"""Messages in expressions: those of google.protobuf, `Object{…}` and `JSONPatch{…}`, and the values they become.

Spec: CEL language definition "Well-known types"; cel.md 3.6. A wrapper message is its value, `Value` is any JSON value,
`Struct` a map, `ListValue` a list, `Any` what is packed in it; only `Empty` is an object at run time. Kubernetes
expressions hardly ever need them, but the language has them.

Spec: admissionregistration.k8s.io/v1 MutatingAdmissionPolicy. `Object` is the object that is written, `Object.spec` the
type of its field `spec`, and so on: any name is a field, whose value is not checked before the patch is applied.
`JSONPatch` is one operation. An environment knows the two where `patch_types` is set.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final

from weir.cel import types
from weir.cel.errors import EvaluationError
from weir.cel.packed import PREFIX, TIMESTAMPS, Empty, unpack
from weir.cel.types import Kind, Type, list_of, map_of, object_named, type_of_type, wrapper
from weir.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, Value, type_of

_JSON_MAP: Final = map_of(types.STRING, types.DYN)
_JSON_LIST: Final = list_of(types.DYN)

#: Message name → (type of the value it becomes, value when no field is given).
MESSAGES: Final[Mapping[str, tuple[Type, Value]]] = {
    PREFIX + name: entry
    for name, entry in {
        "BoolValue": (wrapper(types.BOOL), False),
        "BytesValue": (wrapper(types.BYTES), b""),
        "DoubleValue": (wrapper(types.DOUBLE), 0.0),
        "FloatValue": (wrapper(types.DOUBLE), 0.0),
        "Int32Value": (wrapper(types.INT), 0),
        "Int64Value": (wrapper(types.INT), 0),
        "StringValue": (wrapper(types.STRING), ""),
        "UInt32Value": (wrapper(types.UINT), UInt(0)),
        "UInt64Value": (wrapper(types.UINT), UInt(0)),
        "Value": (types.DYN, None),
        "Struct": (_JSON_MAP, {}),
        "ListValue": (_JSON_LIST, []),
        "Any": (types.ANY, None),
        "Empty": (Empty.cel_type, Empty()),
        "Duration": (types.DURATION, None),
        "Timestamp": (types.TIMESTAMP, None),
    }.items()
}
_VALUE_FIELDS: Final[Mapping[str, Type]] = {
    "null_value": types.INT,
    "number_value": types.DOUBLE,
    "string_value": types.STRING,
    "bool_value": types.BOOL,
    "struct_value": _JSON_MAP,
    "list_value": _JSON_LIST,
}
_TIME_FIELDS: Final[Mapping[str, Type]] = {"seconds": types.INT, "nanos": types.INT}
_ANY_FIELDS: Final[Mapping[str, Type]] = {"type_url": types.STRING, "value": types.BYTES}
#: The seconds 64-bit nanoseconds can hold.
_DURATIONS: Final = range(-(2**63) // 10**9, 2**63 // 10**9 + 1)
#: Named constants of these messages.
CONSTANTS: Final[Mapping[str, tuple[Type, Value]]] = {
    "google.protobuf.NullValue.NULL_VALUE": (types.INT, 0),
    Empty.cel_type.name: (type_of_type(Empty.cel_type), TypeValue(Empty.cel_type.name)),
}
#: Go's types of fields, by what they hold and, where that is not enough, by name.
_GO_TYPES: Final = {
    Kind.STRING: "string",
    Kind.BYTES: "[]uint8",
    Kind.BOOL: "bool",
    Kind.INT: "int64",
    Kind.UINT: "uint64",
    Kind.DOUBLE: "float64",
}
_GO_NAMES: Final = {
    ("Int32Value", "value"): "int32",
    ("UInt32Value", "value"): "uint32",
    ("FloatValue", "value"): "float32",
    ("Duration", "nanos"): "int32",
    ("Timestamp", "nanos"): "int32",
    ("Value", "struct_value"): "*structpb.Struct",
    ("Value", "list_value"): "*structpb.ListValue",
}
#: How a value of another type refuses to become what a field holds; `{}` is Go's name for that.
_REFUSALS: Final = {
    Kind.INT: "unsupported type conversion from 'int' to {}",
    Kind.UINT: "unsupported type conversion from 'uint' to {}",
    Kind.NULL: "type conversion error from 'null_type' to '{}'",
    Kind.STRING: "unsupported native conversion from string to '{}'",
    Kind.BYTES: "type conversion error from Bytes to '{}'",
    Kind.DOUBLE: "type conversion error from Double to '{}'",
    Kind.BOOL: "type conversion error from bool to '{}'",
    Kind.LIST: "type conversion error from list to '{}'",
    Kind.MAP: "type conversion error from map to '{}'",
    Kind.DURATION: "type conversion error from 'Duration' to '{}'",
    Kind.TIMESTAMP: "type conversion error from 'Timestamp' to '{}'",
    Kind.TYPE: "type conversion not supported for 'type'",
}


def field_type(message: str, field: str) -> Type | None:
    """The type of *field* of *message*, or None when there is no such field."""
    name = message.removeprefix(PREFIX)
    if name == "Value":
        return _VALUE_FIELDS.get(field)
    if name == "Any":
        return _ANY_FIELDS.get(field)
    if name in ("Duration", "Timestamp"):
        return _TIME_FIELDS.get(field)
    if name == "Struct":
        return _JSON_MAP if field == "fields" else None
    if name == "ListValue":
        return _JSON_LIST if field == "values" else None
    found = MESSAGES.get(message)
    if found is None or field != "value" or not found[0].params:
        return None
    return found[0].params[0]


def construct(message: str, fields: Mapping[str, Value]) -> Value:
    """The value the message literal stands for."""
    fields = {field: _field(message, field, value) for field, value in fields.items()}
    value = next(iter(fields.values())) if fields else MESSAGES[message][1]
    name = message.removeprefix(PREFIX)
    if name == "Any":
        return unpack(fields.get("type_url", ""), fields.get("value", b""))
    if name in ("Duration", "Timestamp"):
        return _time(name, fields)
    if name == "Value" and "null_value" in fields:
        return None
    if name == "FloatValue" and isinstance(value, float):
        return _single_precision(value)
    return value


def _field(message: str, field: str, value: Value) -> Value:
    """*value* as the field holds it; raises EvaluationError for one that came through dyn and does not fit."""
    wanted = field_type(message, field)
    if wanted is None:
        raise EvaluationError(f"no such field '{field}'")
    if value.__class__ is Optional and value.has_value:
        value = value.value
    given = type_of(value)
    go = _GO_NAMES.get((message.removeprefix(PREFIX), field)) or _GO_TYPES.get(wanted.kind, "")
    if not go and given.kind is not wanted.kind:
        shown = str(given) if given.params else given.name
        raise EvaluationError(f"unsupported field type for {message}.{field}: {shown}")
    refusal = ""
    if given.kind is Kind.OPTIONAL:
        refusal = "optional.none() dereference"
    elif given.kind is not wanted.kind:
        words = f"type conversion error from '{given.name.rpartition('.')[2]}' to '{{}}'"
        refusal = _REFUSALS.get(given.kind, words).format(go)
    elif go == "int32" and not -(2**31) <= value < 2**31:
        refusal = "integer overflow"
    elif go == "uint32" and value >= 2**32:
        refusal = "unsigned integer overflow"
    if refusal:
        raise EvaluationError(f"field type conversion error for {message}.{field} value type: {refusal}")
    return value


def _time(name: str, fields: Mapping[str, Value]) -> Duration | Timestamp:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if seconds not in (_DURATIONS if name == "Duration" else TIMESTAMPS):
        raise EvaluationError("integer overflow" if name == "Duration" else "timestamp overflow")
    total = seconds * 10**9 + nanos
    return Duration(total) if name == "Duration" else Timestamp(total)


def _single_precision(value: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


OBJECT: Final = "Object"
JSON_PATCH: Final = "JSONPatch"
_PATCH_FIELDS: Final[Mapping[str, Type]] = {
    "op": types.STRING,
    "from": types.STRING,
    "path": types.STRING,
    "value": types.DYN,
}
_GO: Final = {
    "int": "int64",
    "double": "float64",
    "bool": "bool",
    "bytes": "[]uint8",
    "null_type": "structpb.NullValue",
}


class Constructed:
    """The value of `Object.a.b{…}`: its type's name and its fields. Two are equal when both are."""

    __slots__ = ("cel_type", "fields")

    def __init__(self, name: str, fields: Mapping[str, Value]) -> None:
        self.cel_type = object_named(name)
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not Constructed:
            return NotImplemented
        return self.cel_type == other.cel_type and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.cel_type)


class Operation:
    """The value of `JSONPatch{…}`; *has_value* tells null from nothing."""

    __slots__ = ("fields",)
    cel_type = object_named(JSON_PATCH)

    def __init__(self, fields: Mapping[str, Value]) -> None:
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return other.fields == self.fields if other.__class__ is Operation else NotImplemented

    def __hash__(self) -> int:
        return hash(JSON_PATCH)


def is_patch_type(name: str) -> bool:
    """Return whether a message of this name can be built.

    >>> is_patch_type("Object.spec"), is_patch_type("JSONPatch"), is_patch_type("Objects")
    (True, True, False)
    """
    return name in (JSON_PATCH, OBJECT) or name.startswith(f"{OBJECT}.")


def patch_field_type(message: str, field: str) -> Type | None:
    """Return the type of a field: of an `Object` every name is one."""
    return _PATCH_FIELDS.get(field) if message == JSON_PATCH else types.DYN


def construct_patch(message: str, fields: Mapping[str, Value]) -> Value:
    """Return the value of a literal."""
    if message != JSON_PATCH:
        return Constructed(message, fields)
    for name in ("op", "path", "from"):
        value = fields.get(name, "")
        if not isinstance(value, str):
            go = _GO.get(type_of(value).name, type_of(value).name)
            raise EvaluationError(f"unexpected type {go} for JSONPatchType '{name}' field")
    return Operation(fields)
