"""Registers the kinds of stored CustomResourceDefinitions once their names are accepted.

Definitions are watched in the store, so that a server also registers what another server wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from weir.apiserver.registry import codec
from weir.customresources.served import rows_of
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.objects.served_kinds import ServedKinds
from weir.observe.logs import Log
from weir.store import Store, StoreError

__all__ = ["DEFINITIONS", "Definitions"]

DEFINITIONS: Final = by_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
log = Log("weir.apiserver.customresources")
Document = dict[str, Any]


class Definitions:
    """Keeps a registry of kinds in step with the stored definitions."""

    def __init__(self, store: Store, served: ServedKinds) -> None:
        self._store, self._served = store, served
        #: by name: group and accepted names, all that one definition needs to know of the others
        self.names: dict[str, tuple[str, Document]] = {}
        #: called with every kind that is no longer served, or converted in another way
        self.when_gone: Callable[[Kind], None] = _nothing
        #: called with the name of every definition that is written or deleted
        self.when_changed: Callable[[str], None] = _nothing
        self._follow()

    def _follow(self) -> None:
        under = DEFINITIONS.prefix
        page = self._store.range(under)
        there = {item.key[len(under) :]: item.value for item in page.items}
        for name in {kind.definition for kind in self._served.joined() if hasattr(kind, "definition")}:
            if name not in there:
                self._set(name, None)
        for name, value in there.items():
            self._set(name, value)

        def deliver(events: Iterable[Any]) -> None:
            for event in events:
                self._set(event.key[len(under) :], None if event.now is None else event.now.value)

        def lost(reason: StoreError) -> None:
            self._follow()

        self._store.watch(under, page.revision, deliver, lost)

    def _set(self, name: str, value: bytes | None) -> None:
        """Serve what a definition says now; None: it is gone."""
        known = self._served.under(name)
        rows: list[Any] = []
        self.names.pop(name, None)
        if value is not None:
            try:
                definition = codec.decode(DEFINITIONS, value)
                names = (definition.get("status") or {}).get("acceptedNames") or {}
                self.names[name] = definition["spec"].get("group") or "", names
                rows = list(rows_of(definition, known))
            except (KeyError, TypeError, ValueError) as error:  # written past this server
                log.error("a definition in the store cannot be served", name=name, err=error)
        if rows or known:
            self._served.join(name, rows)
        left = {(kind.group, kind.version): kind.conversion for kind in rows}
        for kind in known:
            # Watches of a version whose conversion webhook changed must restart.
            if left.get((kind.group, kind.version)) != getattr(kind, "conversion", None):
                self.when_gone(kind)
        self.when_changed(name)


def _nothing(what: object) -> None:
    """Default callback."""
