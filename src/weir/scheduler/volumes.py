"""Storage state of the scheduler: volumes, claims and classes, with assumed bindings on top.

A volume assumed for a claim, or a claim assumed on a node, counts from the decision until the claims are bound or the
attempt fails, so that two pods never count on the same volume.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from weir.objects.core import LabelSelector, ObjectMeta, Pod, View
from weir.objects.volumes import ObjectReference, PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.values.quantity import find_quantity

if TYPE_CHECKING:
    from weir.scheduler.queueing_hints import ClusterEvent

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class CSINodeResources(View, frozen=True):
    count: int | None = None


class CSINodeDriver(View, frozen=True):
    name: str = ""
    allocatable: CSINodeResources | None = None


class CSINodeSpec(View, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(View, frozen=True):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Any = None
    maximum_volume_size: Any = None


class VolumeAttachmentSource(View, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(View, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class PodClaim(NamedTuple):
    """A claim as a pod names it."""

    name: str
    ephemeral: bool  #: made for this pod from a template in it


def pod_claims(pod: Pod) -> Iterator[PodClaim]:
    """Yield the claims *pod* uses, all of its own namespace."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield PodClaim(volume.persistent_volume_claim.claim_name, False)
        elif volume.ephemeral is not None:
            yield PodClaim(f"{pod.metadata.name}-{volume.name}", True)


def is_claim_of_pod(pod: Pod, event: ClusterEvent) -> bool:
    """A hint: the event is about a claim that *pod* uses."""
    metadata = (event.new or event.old).metadata
    return metadata.namespace == pod.metadata.namespace and any(
        metadata.name == claim.name for claim in pod_claims(pod)
    )


def storage_class_of(claim: PersistentVolumeClaim) -> str:
    """Return the name of the claim's class; the old annotation goes before the field."""
    beta = (claim.metadata.annotations or {}).get(BETA_CLASS)
    return beta if beta is not None else claim.spec.storage_class_name or ""


def bytes_of(amount: Any) -> int | None:
    """Return a quantity in whole bytes, or None when there is none."""
    quantity = find_quantity(str(amount)) if amount is not None else None
    return quantity.value if quantity is not None else None


def requested_bytes(claim: PersistentVolumeClaim) -> int | None:
    """Return the storage *claim* requests, if specified."""
    resources = claim.spec.resources
    return bytes_of(((resources.requests if resources else None) or {}).get("storage"))


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether *claim* has its volume and both sides know."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def belongs_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether *volume* is reserved for *claim*."""
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    same = (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
    return same and reference.uid in ("", claim.metadata.uid)


@dataclass
class Storage:
    """The storage objects of one cluster, by name or `namespace/name`, and the promises made of them."""

    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CSINode] = field(default_factory=dict)
    csi_drivers: dict[str, CSIDriver] = field(default_factory=dict)
    capacities: dict[str, CSIStorageCapacity] = field(default_factory=dict)
    attachments: dict[str, VolumeAttachment] = field(default_factory=dict)
    version: int = 0  #: changes with everything here
    _promised_volumes: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    _promised_claims: dict[str, str] = field(default_factory=dict)

    def put(self, place: str, old: Any, new: Any) -> None:
        """Apply a change of an object of *place*."""
        objects: dict[str, Any] = getattr(self, place)
        metadata = (new or old).metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        if new is None:
            objects.pop(key, None)
        else:
            objects[key] = new
        self.version += 1

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim, with the node it has been promised to."""
        key = f"{namespace}/{name}"
        claim = self.claims.get(key)
        node = self._promised_claims.get(key)
        if claim is None or node is None:
            return claim
        annotations = {**(claim.metadata.annotations or {}), SELECTED_NODE: node}
        return msgspec.structs.replace(
            claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations)
        )

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume, with the claim it has been promised to."""
        volume = self.volumes.get(name)
        claim = self._promised_volumes.get(name)
        if volume is None or claim is None:
            return volume
        reference = ObjectReference(
            namespace=claim.metadata.namespace, name=claim.metadata.name, uid=claim.metadata.uid
        )
        return msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference))

    def volumes_of_class(self, name: str) -> Iterator[PersistentVolume]:
        """Yield the volumes of a class, promises included."""
        for volume in self.volumes.values():
            if (volume.spec.storage_class_name or "") == name:
                found = self.volume(volume.metadata.name)
                assert found is not None
                yield found

    def waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether *claim* is bound only once a pod that uses it has been placed."""
        storage_class = self.classes.get(storage_class_of(claim))
        return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"

    # ── promises ─────────────────────────────────────────────────────────────────────────────────

    def promise_volume(self, volume: str, claim: PersistentVolumeClaim) -> None:
        self._promised_volumes[volume] = claim
        self.version += 1

    def promise_claim(self, claim: PersistentVolumeClaim, node: str) -> None:
        self._promised_claims[f"{claim.metadata.namespace}/{claim.metadata.name}"] = node
        self.version += 1

    def take_back(self, volumes: list[str], claims: list[PersistentVolumeClaim]) -> None:
        """End promises: they have been kept, or the pod was not placed after all."""
        for name in volumes:
            self._promised_volumes.pop(name, None)
        for claim in claims:
            self._promised_claims.pop(f"{claim.metadata.namespace}/{claim.metadata.name}", None)
        self.version += 1
