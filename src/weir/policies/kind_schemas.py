"""Schemas of kinds for type-checking `object` and `params`.

Spec: the documents of /openapi/v3, from which upstream's type checker takes the types of `object` and `params`.
Built-in kinds come from the field table, custom kinds from their definition. Every resource, also an embedded one,
has the whole ObjectMeta. Quantities have no type, so no expression can name them; a recursive struct is an object
without fields where it recurs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from weir.customresources.expression_types import with_metadata
from weir.customresources.schema import Schema
from weir.customresources.served import CustomResourceKind
from weir.objects import schema
from weir.objects.document import root_of
from weir.objects.kind import Kind

__all__ = ["schema_of"]

_TEXT: Final = Schema(("string",))
_OBJECT: Final = Schema(("object",))
_INT_OR_STRING: Final = Schema(("integer", "string"))
_SCALARS: Final = {
    "string": _TEXT,
    "bool": Schema(("boolean",)),
    "bytes": Schema(("string",), format="byte"),
    "Time": Schema(("string",), format="datetime"),
    "MicroTime": Schema(("string",), format="datetime"),
    "Duration": _TEXT,
    "IntOrString": _INT_OR_STRING,
    "RawExtension": _OBJECT,
    "FieldsV1": _OBJECT,
}
_OBJECT_META: Final = "meta.v1.ObjectMeta"


def schema_of(kind: Kind) -> Schema:
    """Return the schema of the objects of *kind*.

    >>> from weir.objects.kinds import by_kind
    >>> found = schema_of(by_kind("v1", "ConfigMap"))
    >>> found.properties["data"].additional.types, found.properties["binaryData"].additional.format
    (('string',), 'byte')
    """
    if not isinstance(kind, CustomResourceKind):
        return _of_struct(root_of(kind), ())
    if kind.says.schema_document() is None:
        return with_metadata(_OBJECT)
    return _as_resource(_with_embedded(kind.schema))


def _as_resource(found: Schema) -> Schema:
    """Return the schema of a resource with its type and the whole of its metadata."""
    added = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _object_meta()}
    return replace(found, properties={**found.properties, **added}, embedded=False)


@cache
def _object_meta() -> Schema:
    return _of_struct(schema.struct(_OBJECT_META), ())


def _with_embedded(found: Schema) -> Schema:
    """Return a schema whose embedded resources have their metadata."""
    if not found.has_embedded:
        return found
    additional = found.additional
    whole = replace(
        found,
        properties={name: _with_embedded(one) for name, one in found.properties.items()},
        additional=_with_embedded(additional) if isinstance(additional, Schema) else additional,
        items=None if found.items is None else _with_embedded(found.items),
    )
    return _as_resource(whole) if found.embedded else whole


def _of_struct(struct: schema.Struct, within: tuple[str, ...]) -> Schema:
    if struct.name in within:
        return _OBJECT
    inside = (*within, struct.name)
    return Schema(
        ("object",),
        properties={one.name: _of_shape(one.shape, inside) for one in struct.fields.values()},
    )


def _of_shape(shape: schema.Shape, within: tuple[str, ...]) -> Schema:
    """Return the schema of a value, one without a type where nothing is said of it."""
    if shape.kind == "struct":
        return _of_struct(schema.struct(shape.struct_name), within)
    if shape.kind == "list" and shape.item is not None:
        return Schema(("array",), items=_of_shape(shape.item, within))
    if shape.kind == "map" and shape.item is not None:
        return Schema(("object",), additional=_of_shape(shape.item, within))
    if shape.kind.startswith(("int", "uint")):
        return Schema(("integer",))
    if shape.kind.startswith("float"):
        return Schema(("number",))
    return _SCALARS.get(shape.kind, Schema())
