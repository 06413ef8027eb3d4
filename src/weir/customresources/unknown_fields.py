"""Fields of a custom resource that its schema does not have.

The server drops them or, under strict validation, rejects the object. `x-kubernetes-preserve-unknown-fields` keeps
unspecified fields, but specified ones below it are checked. Values of `additionalProperties: true` have no schema, so
everything in them is unknown. Fields of `metadata` are in weir.validate.unknown_fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from weir.customresources.schema import Schema

Path = tuple[str | int, ...]  #: keys and positions that lead to a field

_META: Final = frozenset({"apiVersion", "kind", "metadata"})


def find_unknown_fields(document: Any, schema: Schema) -> Iterator[tuple[Path, Schema]]:
    """Yield the path of every field that is not in the schema, and the schema of the object it stands in.

    >>> schema = Schema(("object",), properties={"spec": Schema(("object",), properties={"size": Schema()})})
    >>> [path for path, _ in find_unknown_fields({"kind": "A", "spec": {"sise": 1}, "x": 2}, schema)]
    [('spec', 'sise'), ('x',)]
    """
    if isinstance(document, Mapping):
        yield from _object(document, schema, (), whole=True)


def _object(
    value: Mapping[Any, Any], schema: Schema, at: Path, *, whole: bool
) -> Iterator[tuple[Path, Schema]]:
    for key, item in value.items():
        if (whole or schema.embedded) and key in _META:
            continue
        place = (*at, str(key))
        if key in schema.properties:
            yield from _value(item, schema.properties[key], place)
        elif schema.additional is not None and schema.additional is not False:
            yield from _value(
                item, schema.additional if isinstance(schema.additional, Schema) else Schema(), place
            )
        elif not schema.preserves_unknown:
            yield place, schema


def _value(value: Any, schema: Schema, at: Path) -> Iterator[tuple[Path, Schema]]:
    if isinstance(value, Mapping):
        yield from _object(value, schema, at, whole=False)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            if schema.items is not None:
                yield from _value(item, schema.items, (*at, i))
            elif not schema.preserves_unknown:
                yield from _value(item, Schema(), (*at, i))
