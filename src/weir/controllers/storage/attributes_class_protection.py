"""VolumeAttributesClass protection: keeps the finalizer while a volume or claim uses the class.

A claim uses the class it has, had before, or is being modified to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.controllers.runtime.actions import Action
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.controllers.storage.pvc_protection import CLAIMS, unprotect
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.objects.quota_usage import attributes_classes_of

CLASSES: Final = by_kind("storage.k8s.io/v1", "VolumeAttributesClass")
VOLUMES: Final = by_kind("v1", "PersistentVolume")
PROTECTION: Final = "kubernetes.io/vac-protection"


@dataclass(frozen=True)
class ClassKey:
    """One VolumeAttributesClass."""

    name: str


class AttributesClassProtection(Controller):
    """The controller that lets unused classes go."""

    name = "volumeattributesclass-protection-controller"
    kinds: Sequence[Kind] = (CLASSES, VOLUMES, CLAIMS)

    def __init__(self, gates: Gates) -> None:
        pass

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ClassKey]:
        """Yield a class that is being deleted, and those that a volume or claim no longer uses."""
        if kind is CLASSES:
            if new is not None and new["metadata"].get("deletionTimestamp"):
                yield ClassKey(new["metadata"]["name"])
            return
        left = _used(kind, old) - _used(kind, new)
        yield from (ClassKey(name) for name in sorted(left))

    def reconcile(self, key: ClassKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the end of a class that waits for its last user."""
        attributes_class = listers.get(CLASSES, key.name)
        if attributes_class is None or not attributes_class["metadata"].get("deletionTimestamp"):
            return
        for kind in (VOLUMES, CLAIMS):
            if any(key.name in _used(kind, document) for document in listers.all(kind)):
                return
        yield from unprotect(CLASSES, attributes_class, PROTECTION)


def _used(kind: Kind, document: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the classes that a volume or claim refers to."""
    if document is None:
        return set()
    if kind is CLAIMS:
        return attributes_classes_of(document)
    return {document["spec"].get("volumeAttributesClassName") or ""} - {""}
