"""Pruning and defaulting of a custom resource.

In the API server's order: unknown fields are dropped, then nulls that are not nullable and have no default, then
defaults are filled in, also within defaults. Documents are changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from weir.compat.customresources.schema import Schema

Path = tuple[str | int, ...]  #: keys and positions that lead to a field


def find_unknown_fields(document: Any, schema: Schema) -> Iterator[tuple[Path, Schema]]:
    """Yield the path of every field that is not in the schema, and the schema of the object it stands in.

    The server drops them or, under strict validation, rejects the object. `x-kubernetes-preserve-unknown-fields` keeps
    unspecified fields, but specified ones below it are checked. Values of `additionalProperties: true` have no schema,
    so everything in them is unknown. Fields of `metadata` are in weir.fields.documents.

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


_META: Final = frozenset({"apiVersion", "kind", "metadata"})


def prune(value: Any, schema: Schema | None, *, root: bool = False) -> None:
    """Drop the fields of *value* that *schema* does not have; `metadata` of resources stays.

    >>> found = {"a": 1, "b": {"c": 2}}
    >>> prune(found, Schema(properties={"a": Schema()}))
    >>> found
    {'a': 1}
    """
    if isinstance(value, dict):
        if schema is None:
            value.clear()
            return
        keeps, properties, additional = schema.preserves_unknown, schema.properties, schema.additional
        embedded = root or schema.embedded
        gone = []
        for key, item in value.items():
            if embedded and key in _META:
                continue
            child = properties.get(key)
            if child is not None:
                if item.__class__ in _NESTED:
                    prune(item, child)
            elif additional is not None and additional is not False:
                if item.__class__ in _NESTED:
                    prune(item, additional if isinstance(additional, Schema) else None)
            elif not keeps:
                gone.append(key)
        for key in gone:
            del value[key]
    elif isinstance(value, list):
        items = schema.items if schema is not None else None
        for item in value:
            if item.__class__ in _NESTED:
                if schema is not None and schema.preserves_unknown:
                    if items is not None:
                        _prune_kept(item, items)
                else:
                    prune(item, items)


def _prune_kept(value: Any, schema: Schema) -> None:
    """Look below a value that is kept whole for what is named again."""
    if isinstance(value, dict):
        embedded = schema.embedded
        for key, item in value.items():
            if item.__class__ not in _NESTED or (embedded and key in _META):
                continue
            child = schema.properties.get(key)
            if child is not None:
                prune(item, child)
            elif schema.additional is not None and schema.additional is not False:
                prune(item, schema.additional if isinstance(schema.additional, Schema) else None)
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            _prune_kept(item, schema.items)


_NESTED: Final = (dict, list)


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Drop nulls of fields that are not nullable and have no default.

    >>> found = {"a": None, "b": None}
    >>> drop_nulls(found, Schema(properties={"a": Schema(), "b": Schema(nullable=True)}))
    >>> found
    {'b': None}
    """
    if schema is None:
        return
    if isinstance(value, dict):
        gone = []
        for key, item in value.items():
            child = schema.properties.get(key)
            if child is None and isinstance(schema.additional, Schema):
                child = schema.additional
            if child is None:
                continue
            if item is None:
                if not child.nullable and child.default is None:
                    gone.append(key)
            elif item.__class__ in _NESTED:
                drop_nulls(item, child)
        for key in gone:
            del value[key]
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            if item.__class__ in _NESTED:
                drop_nulls(item, schema.items)


def fill_defaults(value: Any, schema: Schema | None) -> None:
    """Fill in the defaults of *schema*.

    >>> from weir.compat.customresources.schema import read_schema
    >>> found = {"a": {}}
    >>> fill_defaults(found, read_schema({"properties": {"a": {"properties": {"b": {"default": 5}}}}}))
    >>> found
    {'a': {'b': 5}}
    """
    if schema is None or not schema.has_defaults:
        return
    if isinstance(value, dict):
        for name, child in schema.properties.items():
            if child.default is not None and (
                name not in value or (value[name] is None and not child.nullable)
            ):
                value[name] = msgspec.to_builtins(child.default)
        for key, item in value.items():
            one = schema.properties.get(key)
            if one is None and isinstance(schema.additional, Schema):
                one = schema.additional
                if item is None and not one.nullable:
                    item = value[key] = msgspec.to_builtins(one.default)
            if one is not None and item.__class__ in _NESTED:
                fill_defaults(item, one)
    elif isinstance(value, list) and schema.items is not None:
        for i, item in enumerate(value):
            if item is None and not schema.items.nullable:
                item = value[i] = msgspec.to_builtins(schema.items.default)
            if item.__class__ in _NESTED:
                fill_defaults(item, schema.items)
