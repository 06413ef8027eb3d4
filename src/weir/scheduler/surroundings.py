"""What else than nodes and pods does the scheduler watch? Storage, services and controllers.

Each kind has a watch that keeps one object up to date (weir.scheduler.volumes, .owners) and tells the queue what
happened, so that a claim that gets its volume wakes the pod that waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from weir.client.api import Client
from weir.client.cache import Informer
from weir.clock import Clock
from weir.gates import Gates
from weir.objects.core import PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.objects.kinds import by_kind
from weir.scheduler.owners import Controller, Owners, Service
from weir.scheduler.plugins import volume_plugins
from weir.scheduler.volumes import CSIDriver, CSINode, CSIStorageCapacity, Storage, VolumeAttachment
from weir.scheduler.wakeups import ClusterEvent, object_events

_STORAGE: Final[tuple[tuple[str, str, type[Any], str], ...]] = (
    ("v1", "PersistentVolume", PersistentVolume, "volumes"),
    ("v1", "PersistentVolumeClaim", PersistentVolumeClaim, "claims"),
    ("storage.k8s.io/v1", "StorageClass", StorageClass, "classes"),
    ("storage.k8s.io/v1", "CSINode", CSINode, "csi_nodes"),
    ("storage.k8s.io/v1", "CSIDriver", CSIDriver, "csi_drivers"),
    ("storage.k8s.io/v1", "CSIStorageCapacity", CSIStorageCapacity, "capacities"),
    ("storage.k8s.io/v1", "VolumeAttachment", VolumeAttachment, "attachments"),
)
_OWNERS: Final[tuple[tuple[str, str, type[Any]], ...]] = (
    ("v1", "Service", Service),
    ("v1", "ReplicationController", Service),
    ("apps/v1", "ReplicaSet", Controller),
    ("apps/v1", "StatefulSet", Controller),
)


class Surroundings:
    """The watches of everything but nodes and pods."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        gates: Gates,
        happened: Callable[[ClusterEvent], None],
        seed: int = 0,
    ) -> None:
        self.storage, self.owners = Storage(), Owners()
        self.volume_plugins = volume_plugins(self.storage, gates)
        self._happened = happened
        self.informers: dict[str, Informer[Any]] = {}
        self._listeners: list[tuple[Informer[Any], Callable[[Any, Any], None]]] = []

        def watch(version: str, kind: str, view: type[Any], listener: Callable[[Any, Any], None]) -> None:
            decode = msgspec.json.Decoder(view).decode
            informer: Informer[Any] = Informer(
                client, by_kind(version, kind), clock, decode, seed=seed + 4 + len(self.informers)
            )
            self.informers[kind] = informer
            self._listeners.append((informer, listener))

        for version, kind, view, place in _STORAGE:
            watch(version, kind, view, partial(self._storage_changed, kind, place))
        for version, kind, view in _OWNERS:
            watch(version, kind, view, partial(self._owner_changed, kind))

    def listen(self) -> None:
        """Take in what the watches know and follow them from now on."""
        for informer, listener in self._listeners:
            informer.cache.listen(listener)

    def _storage_changed(self, kind: str, place: str, old: Any, new: Any) -> None:
        self.storage.put(place, old, new)
        for event in object_events(kind, old, new):
            self._happened(event)

    def _owner_changed(self, kind: str, old: Any, new: Any) -> None:
        if kind == "Service":
            self.owners.put_service(old, new)
        else:
            self.owners.put_controller(kind, old, new)
