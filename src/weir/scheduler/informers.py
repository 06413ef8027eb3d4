"""What else than nodes and pods does the scheduler watch? Storage, devices and their claims, services, controllers.

Each kind has a watch that keeps one object up to date (weir.scheduler.volumes, .claims, .owners) and tells the queue
what happened, so that a claim that gets its volume, or a device that loses its taint, wakes the pod that waits for it.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

import msgspec

from weir.client.api import Client
from weir.client.cache import Informer
from weir.clock import Clock
from weir.devices.pool import PoolKey
from weir.devices.tracker import Problem, Update
from weir.errors import Forbidden, NotFound, WeirError
from weir.gates import DEVICE_TAINT_RULES, Gates
from weir.objects.core import PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.objects.kinds import by_kind
from weir.objects.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from weir.scheduler.claims import Claims
from weir.scheduler.default_spread_selector import Controller, DefaultSpreadSelectors, Service
from weir.scheduler.plugins import device_plugins, volume_plugins
from weir.scheduler.profile import PluginOfDevices, PluginOfPods, ProfileArguments
from weir.scheduler.queueing_hints import SLICE_ADD, SLICE_UPDATE, ClusterEvent, object_events
from weir.scheduler.volumes import CSIDriver, CSINode, CSIStorageCapacity, Storage, VolumeAttachment

_STORAGE: Final[tuple[tuple[str, str, type[Any], str], ...]] = (
    ("v1", "PersistentVolume", PersistentVolume, "volumes"),
    ("v1", "PersistentVolumeClaim", PersistentVolumeClaim, "claims"),
    ("storage.k8s.io/v1", "StorageClass", StorageClass, "classes"),
    ("storage.k8s.io/v1", "CSINode", CSINode, "csi_nodes"),
    ("storage.k8s.io/v1", "CSIDriver", CSIDriver, "csi_drivers"),
    ("storage.k8s.io/v1", "CSIStorageCapacity", CSIStorageCapacity, "capacities"),
    ("storage.k8s.io/v1", "VolumeAttachment", VolumeAttachment, "attachments"),
)
_DEVICES: Final = "resource.k8s.io/v1"
_OWNERS: Final[tuple[tuple[str, str, type[Any]], ...]] = (
    ("v1", "Service", Service),
    ("v1", "ReplicationController", Service),
    ("apps/v1", "ReplicaSet", Controller),
    ("apps/v1", "StatefulSet", Controller),
)


class Informers:
    """The watches of everything but nodes and pods."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        gates: Gates,
        on_event: Callable[[ClusterEvent], None],
        seed: int = 0,
        troubled: Callable[[Problem], None] = lambda problem: None,
    ) -> None:
        """*happened* hears what waiting pods may wait for, *troubled* of rules that could not be applied."""
        self.storage, self.owners = Storage(), DefaultSpreadSelectors()
        self.claims = Claims(gates, clock.now)
        self.claims.changed = self._claim_differs
        self._gates, self._ids = gates, random.Random(seed + 3)
        self._happened, self._troubled = on_event, troubled
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
        if gates.enabled("DynamicResourceAllocation"):
            watch(_DEVICES, "DeviceClass", DeviceClass, self._class_changed)
            if gates.enabled(DEVICE_TAINT_RULES):
                watch(_DEVICES, "DeviceTaintRule", DeviceTaintRule, self._rule_changed)
            watch(_DEVICES, "ResourceSlice", ResourceSlice, self._slice_changed)
            watch(_DEVICES, "ResourceClaim", ResourceClaim, self._claim_changed)
        self._client = client
        self._device_kinds = [
            kind for kind, informer in self.informers.items() if informer.kind.group == "resource.k8s.io"
        ]

    def volume_plugins(self, profile: ProfileArguments) -> tuple[PluginOfPods, ...]:
        """Return the plugins that look at volumes, with the arguments of one profile."""
        return volume_plugins(self.storage, self._gates, profile.volume_shape)

    def device_plugins(self, profile: ProfileArguments) -> tuple[PluginOfDevices, ...]:
        """Return the plugins that look at devices, with the arguments of one profile."""
        return device_plugins(
            self.claims,
            self._gates,
            lambda: str(uuid.UUID(int=self._ids.getrandbits(128), version=4)),
            filter_seconds=profile.claim_filter_seconds,
            binding_seconds=profile.claim_binding_seconds,
        )

    async def unserved(self) -> set[str]:
        """Return the kinds about devices that the server does not have, or does not show to us.

        Pods without claims do not wait for them. They are still watched: a server that learns them later is
        followed from then on.
        """
        found: set[str] = set()
        for kind in self._device_kinds:
            try:
                await self._client.list(by_kind(_DEVICES, kind), limit=1)
            except (NotFound, Forbidden):
                found.add(kind)
            except (WeirError, OSError, TimeoutError):
                continue  # it may have them: their watches will tell
        return found

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

    # ── devices ──────────────────────────────────────────────────────────────────────────────────

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            self.claims.put_claim(new)
        elif old is not None:
            self.claims.remove_claim(old.key)

    def _claim_differs(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Tell what became of a claim: whoever frees one may help every pod that waits for devices."""
        claim = new or old
        assert claim is not None
        freed = old is not None and old.status.allocation is not None
        frees = freed and (new is None or new.status.allocation is None)
        pods: Collection[str] = self.claims.waiting if frees else self.claims.waiting_for(claim)
        if pods:
            for event in object_events("ResourceClaim", old, new):
                self._happened(ClusterEvent(event.label, old, new, pods))

    def devices_changed(self, pools: frozenset[PoolKey], label: str = SLICE_UPDATE) -> None:
        """Tell that devices of *pools* are others now, have other taints, or are free again."""
        if pools and self.claims.waiting:
            self._happened(ClusterEvent(label, None, pools, self.claims.waiting))

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if new is not None:
            self._tracked(self.claims.put_class(new))
            for event in object_events("DeviceClass", old, new):
                self._happened(event)
        elif old is not None:
            self._tracked(self.claims.remove_class(old.name))

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if new is not None:
            self._tracked(self.claims.put_slice(new), label=SLICE_ADD if old is None else SLICE_UPDATE)
        elif old is not None:
            self._tracked(self.claims.remove_slice(old.name))

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if new is not None:
            self._tracked(self.claims.put_rule(new), new)
        elif old is not None:
            self._tracked(self.claims.remove_rule(old.name), old)

    def _tracked(
        self, update: Update, rule: DeviceTaintRule | None = None, label: str = SLICE_UPDATE
    ) -> None:
        """Tell which pools a change was about, and what went wrong with rules."""
        for problem in update.problems:
            self._troubled(problem)
        pools = self.claims.pools_of(update)
        if rule is not None and self.claims.waiting:
            pools |= self.claims.unpublished_pools()
        self.devices_changed(pools, label)
