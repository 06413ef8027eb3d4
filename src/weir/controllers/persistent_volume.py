"""Which volume does this claim get? Claims and volumes that exist are matched; none are made.

A claim takes the smallest volume that is free and has its class, modes, labels and size. With a class that waits for
the first consumer nothing is chosen here: the scheduler writes its choice into the volume, and this completes it.
A volume whose claim is gone is Released, or deleted where its policy says so. A claim that a pod uses, and a volume
that a claim has, are protected by a finalizer; it is taken away when they are free.
A claim that no volume fits and whose class has a provisioner is marked for it; who provisions sees the mark.
Not here: making volumes (weir.controllers.volume_provisioner), which node may use a volume (weir.selectors.node).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.controllers.actions import Action, Delete, Patch, Record, WakeAt
from weir.controllers.known import PODS, Known
from weir.controllers.views import Pod
from weir.controllers.workload import about
from weir.gates import Gates
from weir.objects.kinds import Kind, by_kind
from weir.selectors.labels import from_object
from weir.values.quantity import Quantity, find_quantity

VOLUMES: Final = by_kind("v1", "PersistentVolume")
CLAIMS: Final = by_kind("v1", "PersistentVolumeClaim")
CLASSES: Final = by_kind("storage.k8s.io/v1", "StorageClass")
COMPLETED: Final = {"pv.kubernetes.io/bind-completed": "yes"}
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
BY_CONTROLLER: Final = {"pv.kubernetes.io/bound-by-controller": "yes"}
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

Document = Mapping[str, Any]


@dataclass(frozen=True)
class VolumeKey:
    """One PersistentVolume."""

    name: str


@dataclass(frozen=True)
class ClaimKey:
    """One PersistentVolumeClaim."""

    namespace: str
    name: str


@dataclass(frozen=True)
class WaitingClaims:
    """A volume became free: every claim that waits."""


Key = VolumeKey | ClaimKey | WaitingClaims


class PersistentVolumes:
    """The volume binder."""

    name: Final = "persistentvolume-controller"
    kinds: Final[tuple[Kind, ...]] = (CLASSES, VOLUMES, CLAIMS, PODS)

    def __init__(self, gates: Gates) -> None:
        pass

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield what a change of a volume, claim or class makes worth looking at."""
        if kind is PODS:
            if new is None or new.terminated:
                yield from (ClaimKey((new or old).metadata.namespace, name) for name in claims_of(new or old))
            return
        metadata = (new or old)["metadata"]
        if kind is VOLUMES:
            yield VolumeKey(metadata["name"])
            yield WaitingClaims()
        elif kind is CLAIMS:
            yield ClaimKey(metadata["namespace"], metadata["name"])
            volume = (new or old)["spec"].get("volumeName")
            if volume:
                yield VolumeKey(volume)
        else:
            yield WaitingClaims()

    def reconcile(self, key: Key, known: Known, now: datetime) -> Iterator[Action]:
        """Yield the next step of a binding, or the end of one."""
        if isinstance(key, WaitingClaims):
            for claim in known.all(CLAIMS):
                if not _is_bound(claim):
                    yield WakeAt(ClaimKey(claim["metadata"]["namespace"], claim["metadata"]["name"]), now)
        elif isinstance(key, ClaimKey):
            claim = known.get(CLAIMS, key.name, key.namespace)
            if claim is None:
                return
            if claim["metadata"].get("deletionTimestamp"):
                if not any(_uses(pod, key) for pod in known.all(PODS)):
                    yield from _unprotect(CLAIMS, claim, CLAIM_PROTECTION)
            elif not _is_bound(claim):
                yield from _bind(claim, known)
        else:
            volume = known.get(VOLUMES, key.name)
            if volume is not None:
                yield from _volume(volume, known, now)


def _bind(claim: Document, known: Known) -> Iterator[Action]:
    volume = _choose(claim, known)
    metadata = claim["metadata"]
    if volume is None:
        if (claim.get("status") or {}).get("phase") != "Pending":
            yield _phase(CLAIMS, claim, "Pending")
        yield from _ask_for_volume(claim, known)
        return
    if not _is_for(volume, claim, exactly=True):
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        }
        changes: dict[str, Any] = {"resourceVersion": volume["metadata"]["resourceVersion"]}
        if not volume["spec"].get("claimRef"):
            changes["annotations"] = BY_CONTROLLER
        patch = {"metadata": changes, "spec": {"claimRef": reference}}
        yield Patch(VOLUMES, volume["metadata"]["name"], "", patch)
    yield _phase(VOLUMES, volume, "Bound")
    chosen = {
        "metadata": {"annotations": {**COMPLETED, **BY_CONTROLLER}},
        "spec": {"volumeName": volume["metadata"]["name"]},
    }
    if claim["spec"].get("volumeName"):
        chosen["metadata"]["annotations"] = COMPLETED
    yield Patch(CLAIMS, metadata["name"], metadata["namespace"], chosen)
    status = {
        "phase": "Bound",
        "accessModes": volume["spec"].get("accessModes"),
        "capacity": volume["spec"].get("capacity"),
    }
    yield Patch(CLAIMS, metadata["name"], metadata["namespace"], {"status": status}, subresource="status")


def _ask_for_volume(claim: Document, known: Known) -> Iterator[Action]:
    """Yield the mark by which the class's provisioner knows that it is asked, when it is time for that."""
    found = known.get(CLASSES, claim["spec"].get("storageClassName") or "")
    if (
        found is None
        or found.get("provisioner") in (None, "", NO_PROVISIONER)
        or claim["spec"].get("volumeName")
    ):
        return
    metadata, provisioner = claim["metadata"], found["provisioner"]
    annotations = metadata.get("annotations") or {}
    if found.get("volumeBindingMode") == "WaitForFirstConsumer" and not annotations.get(SELECTED_NODE):
        if (claim.get("status") or {}).get("phase") != "Pending":
            text = "waiting for first consumer to be created before binding"
            yield Record(about(claim, CLAIMS), "Normal", "WaitForFirstConsumer", text)
    elif annotations.get(PROVISIONER) != provisioner:
        marks = {PROVISIONER: provisioner, OLD_PROVISIONER: provisioner}
        yield Patch(CLAIMS, metadata["name"], metadata["namespace"], {"metadata": {"annotations": marks}})
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by "
            "the system administrator. If volume creation is delayed, please verify that the provisioner is running "
            "and correctly registered."
        )
        yield Record(about(claim, CLAIMS), "Normal", "ExternalProvisioning", text)


def _volume(volume: Document, known: Known, now: datetime) -> Iterator[Action]:
    reference = volume["spec"].get("claimRef")
    if volume["metadata"].get("deletionTimestamp"):
        held = reference and known.get(CLAIMS, reference.get("name", ""), reference.get("namespace", ""))
        if not held:
            yield from _unprotect(VOLUMES, volume, VOLUME_PROTECTION)
        return
    phase = (volume.get("status") or {}).get("phase")
    if not reference:
        if phase != "Available":
            yield _phase(VOLUMES, volume, "Available")
        return
    claim = known.get(CLAIMS, reference.get("name", ""), reference.get("namespace", ""))
    if claim is not None and reference.get("uid") in (None, "", claim["metadata"]["uid"]):
        if not _is_bound(claim):
            yield WakeAt(ClaimKey(claim["metadata"]["namespace"], claim["metadata"]["name"]), now)
        return
    if not reference.get("uid"):
        if phase != "Available":  # kept for a claim that has not come yet
            yield _phase(VOLUMES, volume, "Available")
    elif (
        volume["spec"].get("persistentVolumeReclaimPolicy", "Retain") == "Delete"
        and PROVISIONED_BY not in (volume["metadata"].get("annotations") or {})  # who made it, removes it
    ):
        yield Delete(VOLUMES, volume["metadata"]["name"], "", volume["metadata"]["uid"])
    elif phase != "Released":
        yield _phase(VOLUMES, volume, "Released")


def _choose(claim: Document, known: Known) -> Document | None:
    """Return the volume for a claim: the one it names or that names it, else the smallest that fits."""
    wanted = claim["spec"].get("volumeName")
    if wanted:
        named: Document | None = known.get(VOLUMES, wanted)
        free = named is not None and (not named["spec"].get("claimRef") or _is_for(named, claim))
        return named if free else None
    volumes: list[Document] = known.all(VOLUMES)
    mine = next((volume for volume in volumes if _is_for(volume, claim)), None)
    if mine is not None:
        return mine
    if _waits(claim, known):
        return None
    fitting = [volume for volume in volumes if not volume["spec"].get("claimRef") and fits(claim, volume)]
    return min(fitting, key=lambda v: (_size(v["spec"].get("capacity")), v["metadata"]["name"]), default=None)


def _waits(claim: Document, known: Known) -> bool:
    found = known.get(CLASSES, claim["spec"].get("storageClassName") or "")
    return bool(found) and found.get("volumeBindingMode") == "WaitForFirstConsumer"


def fits(claim: Document, volume: Document) -> bool:
    """Return whether the volume is what the claim asks for."""
    asked, has = claim["spec"], volume["spec"]
    selector = from_object(asked["selector"]) if asked.get("selector") else None
    return (
        (asked.get("storageClassName") or "") == (has.get("storageClassName") or "")
        and (asked.get("volumeMode") or "Filesystem") == (has.get("volumeMode") or "Filesystem")
        and set(asked.get("accessModes") or ()) <= set(has.get("accessModes") or ())
        and (selector is None or selector.matches(volume["metadata"].get("labels") or {}))
        and _size((asked.get("resources") or {}).get("requests")) <= _size(has.get("capacity"))
        and not volume["metadata"].get("deletionTimestamp")
    )


def _size(amounts: Mapping[str, Any] | None) -> int:
    found: Quantity | None = find_quantity(str((amounts or {}).get("storage", "0")))
    return found.scaled(0) if found is not None else 0


def _is_for(volume: Document, claim: Document, *, exactly: bool = False) -> bool:
    reference = volume["spec"].get("claimRef") or {}
    metadata = claim["metadata"]
    same = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
    uids = (metadata["uid"],) if exactly else (metadata["uid"], None, "")
    return same and reference.get("uid") in uids


def claims_of(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims a pod uses."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def _uses(pod: Pod, key: ClaimKey) -> bool:
    return (
        pod.metadata.namespace == key.namespace
        and bool(pod.spec.node_name)
        and not pod.terminated
        and key.name in claims_of(pod)
    )


def _unprotect(kind: Kind, document: Document, finalizer: str) -> Iterator[Action]:
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer in finalizers:
        kept = [each for each in finalizers if each != finalizer] or None
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
        yield Patch(kind, metadata["name"], metadata.get("namespace", ""), patch)


def _is_bound(claim: Document) -> bool:
    return (claim.get("status") or {}).get("phase") in ("Bound", "Lost")


def _phase(kind: Kind, document: Document, phase: str) -> Patch:
    metadata = document["metadata"]
    namespace = metadata.get("namespace", "")
    return Patch(kind, metadata["name"], namespace, {"status": {"phase": phase}}, subresource="status")
