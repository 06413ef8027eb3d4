"""What is left to do before a namespace that is being deleted can go? Everything in it, first.

The server refuses new objects in a Terminating namespace; what is there is deleted kind by kind, and looked at
again until nothing is left (pods take their grace period), then the namespace's own finalizer is taken away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.controllers.actions import Action, Empty
from weir.controllers.known import Known
from weir.gates import Gates
from weir.objects.kinds import KINDS, Kind, by_kind

NAMESPACES: Final = by_kind("v1", "Namespace")
#: Every kind that lives in namespaces; events of both groups are one store.
CONTENT: Final = tuple(
    kind
    for kind in KINDS
    if kind.namespaced and kind.stored and "list" in kind.verbs and kind.group != "events.k8s.io"
)


@dataclass(frozen=True)
class NamespaceKey:
    """One namespace."""

    name: str


class Namespaces:
    """The namespace controller."""

    name: Final = "namespace-controller"
    kinds: Final[tuple[Kind, ...]] = (NAMESPACES,)

    def __init__(self, gates: Gates) -> None:
        pass

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[NamespaceKey]:
        """Yield namespaces that are being deleted."""
        if new is not None and new["metadata"].get("deletionTimestamp"):
            yield NamespaceKey(new["metadata"]["name"])

    def reconcile(self, key: NamespaceKey, known: Known, now: datetime) -> Iterator[Action]:
        """Yield the emptying of a namespace that waits for it."""
        namespace = known.get(NAMESPACES, key.name)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        if "kubernetes" in (namespace.get("spec", {}).get("finalizers") or ()):
            yield Empty(key.name, CONTENT, key)
