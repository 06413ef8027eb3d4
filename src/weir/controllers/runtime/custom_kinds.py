"""Kinds of CustomResourceDefinitions, for controllers that watch every kind.

One row for each established definition, in its storage version, so that an object is seen once. Rows come from
watched definitions rather than from discovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.objects.kind import Kind
from weir.objects.kinds import find_kind

Document = Mapping[str, Any]


def row_of(definition: Document) -> Kind | None:
    """Return the kind that an established definition makes, None when it makes none.

    >>> spec = {"group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
    ...         "versions": [{"name": "v1", "served": True, "storage": True}]}
    >>> row_of({"spec": spec, "status": {"conditions": [{"type": "Established", "status": "True"}]}})
    Kind(example.com/v1 Widget)
    """
    conditions = (definition.get("status") or {}).get("conditions") or ()
    if not any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
        return None
    spec = definition["spec"]
    served = [version for version in spec.get("versions") or () if version.get("served")]
    if not served:
        return None
    version = next((one for one in served if one.get("storage")), served[0])
    names = spec["names"]
    namespaced = spec.get("scope") != "Cluster"
    return Kind(spec["group"], version["name"], names["kind"], names["plural"], namespaced=namespaced)


class CustomKinds:
    """The custom kinds a process knows now."""

    def __init__(self) -> None:
        self._rows: dict[str, Kind] = {}  # by the name of the definition
        self._by_kind: dict[tuple[str, str], Kind] = {}  # by group and kind

    def set(self, name: str, definition: Document | None) -> tuple[Kind | None, Kind | None]:
        """Note a definition; return the kind that is gone with its old state, and the one that is new."""
        was, now = self._rows.get(name), None if definition is None else row_of(definition)
        if was is not None and now is not None and _same(was, now):
            return None, None
        if was is not None:
            del self._rows[name]
            self._by_kind.pop((was.group, was.kind), None)
        if now is not None:
            self._rows[name] = now
            self._by_kind[now.group, now.kind] = now
        return was, now

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Return the row of a kind as an owner reference names it, in any version."""
        return find_kind(api_version, kind) or self._by_kind.get((api_version.rpartition("/")[0], kind))


def _same(was: Kind, now: Kind) -> bool:
    return (was.api_version, was.kind, was.plural, was.namespaced) == (
        now.api_version,
        now.kind,
        now.plural,
        now.namespaced,
    )
