"""OpenAPI schemas of kinds, from the field table and descriptions.

Spec: apiserver.md 14 (`/openapi/v3`), 6 and 7 for the extensions clients read: group-version-kind, patch-merge-key,
patch-strategy, list-type, list-map-keys, map-type.
Versions 2 and 3 differ in how a reference carries a description and in the int-or-string and quantity types.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from weir.objects import schema
from weir.objects.descriptions import describe
from weir.objects.kind import Kind
from weir.taints.operators import OPERATORS, find_in_affinity

Json = dict[str, Any]

_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_RAW: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
#: Where the structs of a group are declared, when not among those of Kubernetes' own API.
_PACKAGES: Final = {
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.",
    "meta": "io.k8s.apimachinery.pkg.apis.",
    "metrics": "io.k8s.metrics.pkg.apis.",
}
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SPECIAL: Final = {
    "Quantity": _QUANTITY,
    "IntOrString": _INT_OR_STRING,
    "RawExtension": _RAW,
    "Time": _META + "Time",
    "MicroTime": _META + "MicroTime",
    "Duration": _META + "Duration",
    "FieldsV1": _META + "FieldsV1",
    "JSON": _EXTENSIONS + "JSON",
    "SchemaOrArray": _EXTENSIONS + "JSONSchemaPropsOrArray",
    "SchemaOrBool": _EXTENSIONS + "JSONSchemaPropsOrBool",
    "SchemaOrStrings": _EXTENSIONS + "JSONSchemaPropsOrStringArray",
}
_SCALARS: Final[dict[str, Json]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "any": {},
    **{
        kind: {"type": "integer", "format": "int32"}
        for kind in ("int", "int8", "int16", "int32", "uint8", "uint16")
    },
    **{kind: {"type": "integer", "format": "int64"} for kind in ("int64", "uint32", "uint64")},
}
_TEXTS: Final = {
    "Quantity": "Quantity is a fixed-point number with a suffix: `100m`, `2`, `1.5Gi`, `1e3`.",
    "IntOrString": "IntOrString is a number or a string, for example a port number or a port name.",
    "RawExtension": "RawExtension is a JSON object of another kind, kept as it is.",
    "Time": "Time is a moment in RFC 3339 form, in whole seconds.",
    "MicroTime": "MicroTime is a moment in RFC 3339 form, with microseconds.",
    "Duration": "Duration is a length of time such as `1h30m`.",
    "FieldsV1": "FieldsV1 is a set of field paths in the form of a tree.",
    "JSON": "JSON is any JSON value.",
    "SchemaOrArray": "JSONSchemaPropsOrArray is one schema or a list of schemas.",
    "SchemaOrBool": "JSONSchemaPropsOrBool is a schema or a boolean.",
    "SchemaOrStrings": "JSONSchemaPropsOrStringArray is a schema or a list of strings.",
}


def model_name(struct: str) -> str:
    """Return the name a struct has in OpenAPI documents: that of its Go package.

    >>> model_name("core.v1.Pod"), model_name("meta.v1.ObjectMeta")
    ('io.k8s.api.core.v1.Pod', 'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta')
    """
    if struct.startswith("."):  # a model's name already
        return struct[1:]
    return _PACKAGES.get(struct.partition(".")[0], "io.k8s.api.") + struct


def custom_model(kind: Kind) -> str:
    """Return what stands for the model of a custom kind where names of structs stand for others.

    >>> from weir.objects.kinds import Kind
    >>> custom_model(Kind("stable.example.com", "v1", "Widget", "widgets"))
    '.com.example.stable.v1.Widget'
    """
    return f".{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"


def reference(struct: str, version: int) -> Json:
    """Return the reference to a struct's schema."""
    place = "#/definitions/" if version == 2 else "#/components/schemas/"
    return {"$ref": place + model_name(struct)}


@cache
def _group_version_kinds() -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for key, struct in schema.roots().items():
        api_version, _, kind = key.rpartition("/")
        group, _, short = api_version.rpartition("/")
        found.setdefault(struct, []).append({"group": group, "kind": kind, "version": short})
    return found


def schema_of(struct: str, version: int) -> Json:
    """Return the schema of one struct."""
    of, words = schema.struct(struct), describe(struct)
    out: Json = {}
    if words.text:
        out["description"] = words.text
    if of.fields:
        out["properties"] = {
            field.name: _property(struct, field, words.fields.get(field.name, ""), version)
            for field in of.fields.values()
        }
    if required := [field.name for field in of.fields.values() if field.required]:
        out["required"] = required
    out["type"] = "object"
    if of.atomic:
        out["x-kubernetes-map-type"] = "atomic"
    if kinds := _group_version_kinds().get(struct):
        out["x-kubernetes-group-version-kind"] = kinds
    return out


def _added_values(struct: str, field: str) -> list[str]:
    """Return the values that weir accepts in a field besides those that Kubernetes 1.37 enumerates."""
    if field != "operator" or struct not in ("Toleration", "DeviceToleration", "NodeSelectorRequirement"):
        return []
    if struct == "NodeSelectorRequirement":
        return [name for name in OPERATORS if find_in_affinity(name) is not None]
    return list(OPERATORS)


def _property(struct: str, field: schema.Field, description: str, version: int) -> Json:
    out = _value(field.shape, version)
    if "$ref" in out and version == 3:
        out = {"allOf": [out]}
    if field.enum:
        values = sorted({*field.enum, *_added_values(struct.rpartition(".")[2], field.name)})
        (out["items"] if field.shape.kind == "list" else out)["enum"] = values
        listed = "".join(f'\n - `"{value}"`' for value in values)
        description = f"{description}\n\nPossible enum values:{listed}".lstrip()
    if description:
        out["description"] = description
    if field.default is not None:
        out["default"] = field.default
    if field.list_type:
        out["x-kubernetes-list-type"] = field.list_type
    if field.keys:
        out["x-kubernetes-list-map-keys"] = list(field.keys)
    if field.map_type:
        out["x-kubernetes-map-type"] = field.map_type
    if field.merge_key:
        out["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.strategies:
        out["x-kubernetes-patch-strategy"] = ",".join(sorted(field.strategies))
    return out


def _value(shape: schema.Shape, version: int) -> Json:
    place = "#/definitions/" if version == 2 else "#/components/schemas/"
    match shape.kind:
        case "struct":
            return reference(shape.struct_name, version)
        case "list" | "map":
            assert shape.item is not None
            inner = _value(shape.item, version)
            if "$ref" in inner and version == 3:
                inner = {"allOf": [inner]}
            if shape.kind == "list":
                return {"type": "array", "items": inner}
            return {"type": "object", "additionalProperties": inner}
    if shape.kind in _SPECIAL:
        return {"$ref": place + _SPECIAL[shape.kind]}
    return dict(_SCALARS[shape.kind])


def _special_schema(kind: str, version: int) -> Json:
    out: Json = {"description": _TEXTS[kind]}
    match kind:
        case "Quantity":
            out |= {"type": "string"} if version == 2 else {"oneOf": [{"type": "string"}, {"type": "number"}]}
        case "IntOrString":
            out["format"] = "int-or-string"
            out |= (
                {"type": "string"} if version == 2 else {"oneOf": [{"type": "integer"}, {"type": "string"}]}
            )
        case "Time" | "MicroTime":
            out |= {"type": "string", "format": "date-time"}
        case "Duration":
            out["type"] = "string"
        case "RawExtension" | "FieldsV1":
            out["type"] = "object"
    return out


def with_references(structs: set[str], version: int) -> dict[str, Json]:
    """Return the schemas of *structs* and of everything they refer to, by model name."""
    found: dict[str, Json] = {}
    special: set[str] = set()
    waiting, seen = sorted(structs), set(structs)
    while waiting:
        name = waiting.pop()
        found[model_name(name)] = schema_of(name, version)
        for field in schema.struct(name).fields.values():
            shape: schema.Shape | None = field.shape
            while shape is not None:
                if shape.kind == "struct" and shape.struct_name not in seen:
                    seen.add(shape.struct_name)
                    waiting.append(shape.struct_name)
                elif shape.kind in _SPECIAL:
                    special.add(shape.kind)
                shape = shape.item
    for kind in special:
        found[_SPECIAL[kind]] = _special_schema(kind, version)
    return dict(sorted(found.items()))
