"""Kinds of a CustomResourceDefinition and validation of their objects, for documents from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from weir.compat.customresources.pruning import fill_defaults
from weir.compat.customresources.resource_rules import rule_errors
from weir.compat.customresources.schema import Schema, SchemaError, read_schema
from weir.compat.customresources.values import validate_lists, validate_value, without_nulls
from weir.fields.field import Context, Document, FieldError
from weir.fields.meta import validate_object_meta

KIND: Final = "CustomResourceDefinition"


@dataclass(frozen=True, slots=True)
class CustomKind:
    """One version of a kind that a definition makes."""

    api_version: str
    kind: str
    namespaced: bool
    schema: Schema
    kept: dict[str, Any] = field(default_factory=dict, compare=False)  #: what is derived from it

    def validate(self, document: Document, context: Context) -> Iterator[FieldError]:
        """Yield what is wrong with an object as a person wrote it: metadata, then values, then lists."""
        metadata = document.get("metadata")
        yield from validate_object_meta(metadata if isinstance(metadata, dict) else {}, context)
        read = without_nulls(document, self.schema)
        errors = validate_value(read, self.schema)
        yield from errors
        if not errors:
            errors = list(validate_lists(read, self.schema))
            yield from errors
        if not errors:
            yield from self._broken_rules(read)

    def _broken_rules(self, read: Any) -> Iterator[FieldError]:
        """Yield the rules that a new object breaks, once it has its defaults."""
        whole = {"apiVersion": self.api_version, "kind": self.kind, **msgspec.to_builtins(read)}
        fill_defaults(whole, self.schema)
        whole["metadata"] = {"name": "", **(whole.get("metadata") or {})}
        yield from rule_errors([], whole, None, self.schema, self.kept)


#: apiVersion and kind → what a definition says
CustomKinds = Mapping[tuple[str, str], CustomKind]


def find_custom_kinds(documents: Iterable[Any]) -> dict[tuple[str, str], CustomKind]:
    """Return the kinds that the definitions among *documents* make; what cannot be read makes none.

    >>> names = {"plural": "widgets", "kind": "Widget"}
    >>> version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    >>> spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    >>> list(find_custom_kinds([{"kind": "CustomResourceDefinition", "spec": spec}]))
    [('example.com/v1', 'Widget')]
    """
    kinds: dict[tuple[str, str], CustomKind] = {}
    for document in documents:
        if isinstance(document, Mapping) and document.get("kind") == KIND:
            for one in _versions(document.get("spec")):
                kinds[one.api_version, one.kind] = one
    return kinds


def _versions(spec: Any) -> Iterator[CustomKind]:
    if not isinstance(spec, Mapping) or not isinstance(spec.get("names"), Mapping):
        return
    for version in spec.get("versions") or ():
        if not isinstance(version, Mapping) or version.get("served") is False:
            continue
        holder = version.get("schema")
        try:
            schema = (
                read_schema((holder or {}).get("openAPIV3Schema"))
                if isinstance(holder, Mapping)
                else Schema()
            )
        except SchemaError:
            continue
        yield CustomKind(
            f"{spec.get('group')}/{version.get('name')}",
            str(spec["names"].get("kind")),
            spec.get("scope") != "Cluster",
            schema,
        )
