"""Views of PersistentVolume, PersistentVolumeClaim and StorageClass."""

from __future__ import annotations

from typing import Any

import msgspec

from weir.objects.core import LabelSelector, NodeSelector, ObjectMeta, Quantities, ResourceRequirements, View


class VolumeNodeAffinity(View, frozen=True):
    required: NodeSelector | None = None


class ObjectReference(View, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(View, frozen=True):
    capacity: Quantities | None = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ObjectReference | None = None
    csi: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = msgspec.field(default=None, name="gcePersistentDisk")
    aws_elastic_block_store: dict[str, Any] | None = msgspec.field(default=None, name="awsElasticBlockStore")
    azure_disk: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None


class PersistentVolumeStatus(View, frozen=True):
    phase: str = ""


class PersistentVolume(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(View, frozen=True):
    volume_name: str = ""
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None


class PersistentVolumeClaimStatus(View, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class StorageClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[dict[str, Any], ...] | None = None
