"""Values of `Object{…}` and `JSONPatch{…}`.

Spec: admissionregistration.k8s.io/v1 MutatingAdmissionPolicy. `Object` is the object that is written, `Object.spec` the
type of its field `spec`, and so on: any name is a field, whose value is not checked before the patch is applied.
`JSONPatch` is one operation. An environment knows the two where `patch_types` is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weir.cel import types
from weir.cel.errors import EvaluationError
from weir.cel.types import Type, object_named
from weir.cel.values import Value, type_of

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


def field_type(message: str, field: str) -> Type | None:
    """Return the type of a field: of an `Object` every name is one."""
    return _PATCH_FIELDS.get(field) if message == JSON_PATCH else types.DYN


def construct(message: str, fields: Mapping[str, Value]) -> Value:
    """Return the value of a literal."""
    if message != JSON_PATCH:
        return Constructed(message, fields)
    for name in ("op", "path", "from"):
        value = fields.get(name, "")
        if not isinstance(value, str):
            go = _GO.get(type_of(value).name, type_of(value).name)
            raise EvaluationError(f"unexpected type {go} for JSONPatchType '{name}' field")
    return Operation(fields)
