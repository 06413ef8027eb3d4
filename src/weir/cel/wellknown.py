"""Which google.protobuf messages can an expression spell, and what values do they become?

Spec: CEL language definition "Well-known types"; cel.md 3. A wrapper message is its value, `Value` is any JSON value,
`Struct` a map, `ListValue` a list: no message object ever exists at run time. Kubernetes expressions hardly
ever need them, but the language has them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final

from weir.cel import types
from weir.cel.types import Type, list_of, map_of, wrapper
from weir.cel.values import Duration, EvaluationError, Timestamp, UInt, Value

_JSON_MAP: Final = map_of(types.STRING, types.DYN)
_JSON_LIST: Final = list_of(types.DYN)
_PREFIX: Final = "google.protobuf."

#: Message name → (type of the value it becomes, value when no field is given).
MESSAGES: Final[Mapping[str, tuple[Type, Value]]] = {
    _PREFIX + name: entry
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
#: The years 1 to 9999 in seconds, and the seconds 64-bit nanoseconds can hold.
_TIMESTAMPS: Final = range(-62_135_596_800, 253_402_300_800)
_DURATIONS: Final = range(-(2**63) // 10**9, 2**63 // 10**9 + 1)
#: Named constants of these messages.
CONSTANTS: Final[Mapping[str, tuple[Type, Value]]] = {"google.protobuf.NullValue.NULL_VALUE": (types.INT, 0)}


def field_type(message: str, field: str) -> Type | None:
    """The type of *field* of *message*, or None when there is no such field."""
    name = message.removeprefix(_PREFIX)
    if name == "Value":
        return _VALUE_FIELDS.get(field)
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
    for field in fields:
        if field_type(message, field) is None:
            raise EvaluationError(f"no such field '{field}'")
    value = next(iter(fields.values())) if fields else MESSAGES[message][1]
    name = message.removeprefix(_PREFIX)
    if name == "Any":  # it holds no message that could be a value
        raise EvaluationError("unsupported conversion to ref.Val: (*dynamicpb.Message)")
    if name in ("Duration", "Timestamp"):
        return _time(name, fields)
    if name == "Value" and "null_value" in fields:
        return None
    if name == "FloatValue" and isinstance(value, float):
        return _single_precision(value)
    if name == "Int32Value" and not -(2**31) <= value < 2**31:
        raise EvaluationError("integer overflow")
    if name == "UInt32Value" and value >= 2**32:
        raise EvaluationError("unsigned integer overflow")
    return value


def _time(name: str, fields: Mapping[str, Value]) -> Duration | Timestamp:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if seconds not in (_DURATIONS if name == "Duration" else _TIMESTAMPS):
        raise EvaluationError("integer overflow" if name == "Duration" else "timestamp overflow")
    total = seconds * 10**9 + nanos
    return Duration(total) if name == "Duration" else Timestamp(total)


def _single_precision(value: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded
