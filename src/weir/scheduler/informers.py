"""Informers of the scheduler beyond nodes and pods: storage, devices and claims, services, controllers.

Each updates one cache (weir.scheduler.volumes, .claims, .default_spread_selector) and reports events to the queue, so
that for example a bound claim or a removed device taint wakes the pods that wait for it.
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
from weir.devices.published import PoolKey
from weir.devices.tracker import Problem, Update
from weir.errors import Forbidden, NotFound, WeirError
from weir.gates import DEVICE_TAINT_RULES, Gates
from weir.objects.kinds import by_kind
from weir.objects.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from weir.objects.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.scheduler.claims import Claims
from weir.scheduler.default_spread_selector import Controller, DefaultSpreadSelectors, Service
from weir.scheduler.queueing_hints import SLICE_ADD, SLICE_UPDATE, ClusterEvent, object_events
from weir.scheduler.volumes import CSIDriver, CSINode, CSIStorageCapacity, Storage, VolumeAttachment
from weir.taints.toleration import Evaluate

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
        on_problem: Callable[[Problem], None] = lambda problem: None,
        evaluate: Evaluate | None = None,
    ) -> None:
        """*on_event* receives what pods may wait for, *on_problem* the rules that could not be applied."""
        self.storage, self.spread_selectors = Storage(), DefaultSpreadSelectors()
        self.claims = Claims(gates, clock.now, evaluate)
        self.claims.changed = self._claim_differs
        self._ids = random.Random(seed + 3)
        self._on_event, self._on_problem = on_event, on_problem
        self.informers: dict[str, Informer[Any]] = {}
        self.views: dict[str, type[Any]] = {}  #: what each kind is read as
        self._listeners: list[tuple[Informer[Any], Callable[[Any, Any], None]]] = []

        def watch(version: str, kind: str, view: type[Any], listener: Callable[[Any, Any], None]) -> None:
            decode = msgspec.json.Decoder(view).decode
            informer: Informer[Any] = Informer(
                client, by_kind(version, kind), clock, decode, seed=seed + 4 + len(self.informers)
            )
            self.informers[kind], self.views[kind] = informer, view
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

    def share_id(self) -> str:
        """Return a new name for a share of a device."""
        return str(uuid.UUID(int=self._ids.getrandbits(128), version=4))

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
                continue  # it may have them: their watches will show
        return found

    def listen(self) -> None:
        """Take in what the watches know and follow them from now on."""
        for informer, listener in self._listeners:
            informer.cache.listen(listener)

    def _storage_changed(self, kind: str, place: str, old: Any, new: Any) -> None:
        self.storage.put(place, old, new)
        for event in object_events(kind, old, new):
            self._on_event(event)

    def _owner_changed(self, kind: str, old: Any, new: Any) -> None:
        if kind == "Service":
            self.spread_selectors.put_service(old, new)
        else:
            self.spread_selectors.put_controller(kind, old, new)

    # ── devices ──────────────────────────────────────────────────────────────────────────────────

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            self.claims.put_claim(new)
        elif old is not None:
            self.claims.remove_claim(old.key)

    def _claim_differs(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Report a changed claim: one that is freed may help other pods that wait for devices."""
        claim = new or old
        assert claim is not None
        pods: Collection[str] = self.claims.waiting_for(claim)
        if old is not None and old.status.allocation and (new is None or not new.status.allocation):
            pods = self.claims.waiting_for_devices_of(old)
        if pods:
            for event in object_events("ResourceClaim", old, new):
                self._on_event(ClusterEvent(event.label, old, new, pods))

    def devices_changed(self, pools: frozenset[PoolKey], label: str = SLICE_UPDATE) -> None:
        """Report that devices of *pools* are others now, have other taints, or are free again."""
        if pools and self.claims.waiting:
            self._on_event(ClusterEvent(label, None, pools, self.claims.waiting))

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if new is not None:
            self._tracked(self.claims.put_class(new))
            for event in object_events("DeviceClass", old, new):
                self._on_event(event)
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
        """Report the pools a change was about, and what went wrong with rules."""
        for problem in update.problems:
            self._on_problem(problem)
        pools = self.claims.pools_of(update)
        if rule is not None and self.claims.waiting:
            pools |= self.claims.unpublished_pools()
        self.devices_changed(pools, label)
