"""Volumes, claims and classes of a World for the scheduler's engine, with gaps filled in.

Claims written by hand lack the volume controller's annotations, and a dump may lack volumes or classes. What is
filled in rejects no pod; `unknown_storage` names it. Claims that a pod or StatefulSet would get at creation are made
here, as by its controller and admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from weir.apiserver.admission.default_classes import default_storage_class
from weir.objects.core import ObjectMeta, OwnerReference, Pod, read
from weir.objects.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.scheduler.volumes import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Storage,
    VolumeAttachment,
    pod_claims,
    storage_class_of,
)
from weir.world import World

#: Kinds about storage: a snapshot that has one of them was taken with storage in mind.
STORAGE_KINDS: Final = (
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
)
_UNKNOWN_CLASS: Final = "\x00unknown"
#: Stands in for the UID of a pod that does not exist yet.
UNBORN: Final = "to be created"


def storage_in(world: World) -> Storage:
    """Return the storage of *world* as the scheduler would see it."""
    storage = Storage(
        dict(world.volumes),
        {},
        dict(world.storage_classes),
        {name: read(CSINode, doc) for name, doc in world.documents.get("CSINode", {}).items()},
        {name: read(CSIDriver, doc) for name, doc in world.documents.get("CSIDriver", {}).items()},
        {
            key: read(CSIStorageCapacity, doc)
            for key, doc in world.documents.get("CSIStorageCapacity", {}).items()
        },
        {
            name: read(VolumeAttachment, doc)
            for name, doc in world.documents.get("VolumeAttachment", {}).items()
        },
    )
    storage.classes[_UNKNOWN_CLASS] = _waiting_class(_UNKNOWN_CLASS)
    for key, claim in world.claims.items():
        _put_claim(storage, world, key, claim)
    return storage


def _put_claim(storage: Storage, world: World, key: str, claim: PersistentVolumeClaim) -> None:
    metadata = msgspec.structs.replace(claim.metadata, namespace=claim.metadata.namespace or "default")
    if is_bound(claim, world):
        # Claims written by hand rarely carry what the volume controller notes on them.
        noted = {**(claim.metadata.annotations or {}), BIND_COMPLETED: "yes"}
        metadata = msgspec.structs.replace(metadata, annotations=noted)
        name = claim.spec.volume_name
        if name not in world.volumes and not world.knows("PersistentVolume"):
            storage.volumes[name] = PersistentVolume(metadata=ObjectMeta(name=name))
    elif not claim.spec.volume_name and not _class_known(claim, world):
        name = storage_class_of(claim) or _UNKNOWN_CLASS
        storage.classes[name] = _waiting_class(name)
        spec = msgspec.structs.replace(claim.spec, storage_class_name=name)
        claim = msgspec.structs.replace(claim, spec=spec)
    storage.claims[key] = msgspec.structs.replace(claim, metadata=metadata)


def _waiting_class(name: str) -> StorageClass:
    """Return a class that can make a volume anywhere, once its pod has a node."""
    return StorageClass(
        metadata=ObjectMeta(name=name), provisioner="unknown", volume_binding_mode="WaitForFirstConsumer"
    )


def _class_known(claim: PersistentVolumeClaim, world: World) -> bool:
    return storage_class_of(claim) in world.storage_classes or "StorageClass" in world.listed


def is_bound(claim: PersistentVolumeClaim, world: World) -> bool:
    """Return whether *claim* has its volume; hand-written claims rarely carry the binder's annotation."""
    name = claim.spec.volume_name
    if not name:
        return False
    if BIND_COMPLETED in (claim.metadata.annotations or {}) or claim.status.phase == "Bound":
        return True
    volume = world.volumes.get(name)
    reference = volume.spec.claim_ref if volume else None
    return reference is not None and (reference.namespace or "default", reference.name) == (
        claim.metadata.namespace or "default",
        claim.metadata.name,
    )


# ── what a snapshot leaves out ───────────────────────────────────────────────────────────────────


def unknown_storage(pod: Pod, world: World) -> Iterator[str]:
    """Yield what would decide about the pod's volumes and is not in *world*."""
    for name, ephemeral in pod_claims(pod):
        claim = world.claims.get(f"{pod.metadata.namespace or 'default'}/{name}")
        if claim is None:
            if not ephemeral and not world.knows(*STORAGE_KINDS):
                yield f"whether the claim {name} exists (no PersistentVolumeClaims in the snapshot)"
        elif is_bound(claim, world):
            if claim.spec.volume_name not in world.volumes and not world.knows("PersistentVolume"):
                yield f"where volume {claim.spec.volume_name} can be used (no PersistentVolumes in the snapshot)"
        elif not claim.spec.volume_name and not _class_known(claim, world):
            yield f"where a volume for {name} could be made (its class is not in the snapshot)"


# ── claims that do not exist yet ─────────────────────────────────────────────────────────────────


def made_claims(pod: Pod, templates: Mapping[str, Any], world: World) -> Iterator[PersistentVolumeClaim]:
    """Yield the claims that creating *pod* would create: for its ephemeral volumes, and from *templates* by name."""
    namespace = pod.metadata.namespace or "default"
    owner = OwnerReference(
        kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid or UNBORN, controller=True
    )
    for volume in pod.spec.volumes or ():
        if volume.ephemeral is None:
            continue
        name = f"{pod.metadata.name}-{volume.name}"
        if f"{namespace}/{name}" not in world.claims:
            template = volume.ephemeral.get("volumeClaimTemplate") or {}
            yield _made(name, namespace, template, world, (owner,))
    for name, template in templates.items():
        if f"{namespace}/{name}" not in world.claims:
            yield _made(name, namespace, template, world, ())


def _made(
    name: str, namespace: str, template: Any, world: World, owners: tuple[OwnerReference, ...]
) -> PersistentVolumeClaim:
    spec = dict((template or {}).get("spec") or {})
    if spec.get("storageClassName") is None:
        classes = [msgspec.to_builtins(each) for each in world.storage_classes.values()]
        default = default_storage_class(classes)
        if default is not None:
            spec["storageClassName"] = default["metadata"]["name"]
    chosen = world.storage_classes.get(str(spec.get("storageClassName") or ""))
    if chosen is None and "StorageClass" not in world.listed:
        spec["storageClassName"] = _UNKNOWN_CLASS
    elif (
        chosen is not None
        and chosen.volume_binding_mode == "Immediate"
        and chosen.provisioner != NO_PROVISIONER
    ):
        spec["storageClassName"] = _UNKNOWN_CLASS  # provisioned immediately, in an unknown topology
    claim = read(PersistentVolumeClaim, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
    metadata = msgspec.structs.replace(claim.metadata, owner_references=owners or None)
    return msgspec.structs.replace(claim, metadata=metadata)
