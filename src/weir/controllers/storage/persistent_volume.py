"""PersistentVolume controller: binds claims to volumes.

Binding takes four writes, each of which may be the last before a restart: volume.spec.claimRef, the volume's phase
Bound, claim.spec.volumeName, the claim's phase Bound; the next sync completes them. A claim whose volume is gone or
bound to another claim is Lost. A claim that no volume fits is annotated for the provisioner of its class; one without
a class gets the default class as soon as there is one. Why a claim waits is reported once per reason, not at every
sync. Matching is in volume_matching, phases in volume_phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Controller, Document, Patch, Record, WakeAt
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers, volume_claims_of
from weir.controllers.runtime.views import Pod
from weir.controllers.storage.protection import PROTECTION, is_held, matters_to_use, unprotect, use_condition
from weir.controllers.storage.volume_matching import (
    class_of,
    find_volume,
    has_class,
    is_prebound_to,
    mismatch,
)
from weir.controllers.storage.volume_phase import BY_CONTROLLER, phase, settle_volume
from weir.controllers.workloads.pod_control import about
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES

COMPLETED: Final = "pv.kubernetes.io/bind-completed"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


@dataclass(frozen=True)
class VolumeKey:
    """One PersistentVolume."""

    name: str


@dataclass(frozen=True)
class WaitingClaims:
    """A volume became free, or a class came: every claim that waits."""


Key = VolumeKey | ObjectKey | WaitingClaims


class PersistentVolumes(Controller):
    """The volume binder."""

    name = "persistentvolume-controller"
    kinds: Sequence[Kind] = (STORAGE_CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, PODS)

    def __init__(self, gates: Gates) -> None:
        self._reported: dict[ObjectKey, tuple[str, ...]] = {}  # why each claim waits, as last reported

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[Key]:
        """Yield what a change of a volume, claim, class or pod makes worth looking at."""
        if kind is PODS:
            if matters_to_use(old, new) or _waits_for_node(new) != _waits_for_node(old):
                for pod in filter(None, (old, new)):
                    yield from (ObjectKey(pod.metadata.namespace, name) for name in volume_claims_of(pod))
            return
        metadata = (new or old)["metadata"]
        if kind is PERSISTENT_VOLUMES:
            yield VolumeKey(metadata["name"])
            for volume in filter(None, (old, new)):
                if reference := volume["spec"].get("claimRef"):
                    yield ObjectKey(reference.get("namespace", ""), reference.get("name", ""))
            yield WaitingClaims()
        elif kind is PERSISTENT_VOLUME_CLAIMS:
            yield ObjectKey(metadata["namespace"], metadata["name"])
            volume = (new or old)["spec"].get("volumeName")
            if volume:
                yield VolumeKey(volume)
        else:
            yield WaitingClaims()

    def reconcile(self, key: Key, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the next step of a binding, or the end of one."""
        if isinstance(key, WaitingClaims):
            for claim in listers.all(PERSISTENT_VOLUME_CLAIMS):
                if not _was_bound(claim):
                    yield WakeAt(key_of(claim), now)
        elif isinstance(key, ObjectKey):
            claim = listers.get(PERSISTENT_VOLUME_CLAIMS, key.name, key.namespace)
            if claim is None:
                self._reported.pop(key, None)
                yield from _volumes_of_deleted_claim(key, listers, now)
            elif claim["metadata"].get("deletionTimestamp"):
                if not is_held(claim, listers):
                    yield from unprotect(PERSISTENT_VOLUME_CLAIMS, claim, PROTECTION)
            elif _was_bound(claim):
                self._reported.pop(key, None)
                yield from _keep(claim, listers)
                if (claim.get("status") or {}).get("phase") == "Bound":
                    yield from use_condition(claim, listers, now)
            else:
                yield from self._bind(key, claim, listers)
        else:
            volume = listers.get(PERSISTENT_VOLUMES, key.name)
            if volume is not None:
                yield from settle_volume(volume, listers, now)

    # ── a claim that waits ───────────────────────────────────────────────────────────────────────

    def _bind(self, key: ObjectKey, claim: Document, listers: Listers) -> Iterator[Action]:
        named = claim["spec"].get("volumeName")
        if named:
            volume = listers.get(PERSISTENT_VOLUMES, named)
            if volume is None:
                yield from _pending(claim)
            elif not volume["spec"].get("claimRef"):
                if problem := mismatch(claim, volume):
                    text = f'Cannot bind to requested volume "{named}": {problem}'
                    yield from self._report(key, claim, "Warning", "VolumeMismatch", text)
                    yield from _pending(claim)
                else:
                    yield from _join(volume, claim)
            elif is_prebound_to(volume, claim):
                yield from _join(volume, claim)
            else:
                text = f'volume "{named}" already bound to a different claim.'
                yield from self._report(key, claim, "Warning", "FailedBinding", text)
                yield from _pending(claim)
            return
        storage_class = listers.get(STORAGE_CLASSES, class_of(claim)) if class_of(claim) else None
        waits = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        volume = find_volume(claim, listers.all(PERSISTENT_VOLUMES), waits=waits)
        if volume is not None:
            yield from _join(volume, claim)
        elif not has_class(claim) and (default := _default_class(listers)):
            patch = {
                "metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]},
                "spec": {"storageClassName": default},
            }
            yield Patch(PERSISTENT_VOLUME_CLAIMS, key.name, key.namespace, patch)
        else:
            yield from _pending(claim)
            yield from self._wait(key, claim, storage_class, waits, listers)

    def _wait(
        self, key: ObjectKey, claim: Document, found: Document | None, waits: bool, listers: Listers
    ) -> Iterator[Action]:
        """Yield why there is no volume, and the annotation that asks the class's provisioner for one."""
        metadata, name = claim["metadata"], class_of(claim)
        annotations = metadata.get("annotations") or {}
        if waits and not annotations.get(SELECTED_NODE):
            yield from self._report(key, claim, "Normal", *_first_consumer(key, listers))
        elif not name:
            text = "no persistent volumes available for this claim and no storage class is set"
            yield from self._report(key, claim, "Normal", "FailedBinding", text)
        elif found is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            yield from self._report(key, claim, "Warning", "ProvisioningFailed", text)
        elif found.get("provisioner") in (None, "", NO_PROVISIONER):
            text = f"no volume plugin matched name: {found.get('provisioner', '')}"
            yield from self._report(key, claim, "Warning", "ProvisioningFailed", text)
        elif annotations.get(PROVISIONER) != (provisioner := found["provisioner"]):
            marks = {PROVISIONER: provisioner, OLD_PROVISIONER: provisioner}
            yield Patch(
                PERSISTENT_VOLUME_CLAIMS,
                metadata["name"],
                metadata["namespace"],
                {"metadata": {"annotations": marks}},
            )
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by "
                "the system administrator. If volume creation is delayed, please verify that the provisioner is "
                "running and correctly registered."
            )
            yield from self._report(key, claim, "Normal", "ExternalProvisioning", text)

    def _report(
        self, key: ObjectKey, claim: Document, type: str, reason: str, message: str
    ) -> Iterator[Action]:
        """Yield an event, unless it is what was reported last."""
        event = (claim["metadata"]["uid"], reason, message)
        if self._reported.get(key) != event:
            self._reported[key] = event
            yield Record(about(claim, PERSISTENT_VOLUME_CLAIMS), type, reason, message)


def _first_consumer(key: ObjectKey, listers: Listers) -> tuple[str, str]:
    """Return the first consumer a claim waits for, as reason and message."""
    pods = [pod for pod in listers.pods_with_volume_claim(key.namespace, key.name) if not pod.terminated]
    waiting = [pod.metadata.name for pod in pods if _waits_for_node(pod)]
    if not waiting:
        return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
    which = "pod" if len(waiting) == 1 else "pods"
    return "WaitForPodScheduled", f"waiting for {which} {','.join(waiting)} to be scheduled"


def _waits_for_node(pod: Pod | None) -> bool:
    """Return whether the scheduler has tried the pod in vain: before that, no event is due."""
    if pod is None or pod.spec.node_name:
        return False
    found = pod.status.condition("PodScheduled")
    return found is not None and found.status == "False"


def _default_class(listers: Listers) -> str:
    """Return the name of the class that claims get which name none: of several the newest."""
    marked = [
        each["metadata"]
        for each in listers.all(STORAGE_CLASSES)
        if any((each["metadata"].get("annotations") or {}).get(name) == "true" for name in IS_DEFAULT)
    ]
    marked.sort(key=lambda metadata: str(metadata["name"]))
    newest = max((m.get("creationTimestamp", "") for m in marked), default="")
    return next((str(m["name"]) for m in marked if m.get("creationTimestamp", "") == newest), "")


# ── a claim that has a volume ────────────────────────────────────────────────────────────────────


def _join(volume: Document, claim: Document) -> Iterator[Action]:
    """Yield what is still missing of a binding."""
    metadata = claim["metadata"]
    if not is_prebound_to(volume, claim, exactly=True):
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
            changes["annotations"] = {BY_CONTROLLER: "yes"}
        patch = {"metadata": changes, "spec": {"claimRef": reference}}
        yield Patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], "", patch)
    yield from phase(volume, "Bound")
    marks = {} if _was_bound(claim) else {COMPLETED: "yes"}
    chosen: dict[str, Any] = {}
    if claim["spec"].get("volumeName") != volume["metadata"]["name"]:
        marks[BY_CONTROLLER] = "yes"
        chosen["spec"] = {"volumeName": volume["metadata"]["name"]}
    if marks:
        chosen["metadata"] = {"annotations": marks}
        yield Patch(PERSISTENT_VOLUME_CLAIMS, metadata["name"], metadata["namespace"], chosen)
    present = claim.get("status") or {}
    modes, capacity = volume["spec"].get("accessModes"), volume["spec"].get("capacity")
    grown = present.get("capacity") if present.get("phase") == "Bound" else None
    status = {"phase": "Bound", "accessModes": modes, "capacity": grown or capacity}
    attributes = volume["spec"].get("volumeAttributesClassName")
    if present.get("phase") != "Bound" and attributes:  # later the volume's modifier writes it
        status["currentVolumeAttributesClassName"] = attributes
    if any(present.get(name) != value for name, value in status.items()):
        yield Patch(
            PERSISTENT_VOLUME_CLAIMS,
            metadata["name"],
            metadata["namespace"],
            {"status": status},
            subresource="status",
        )


def _keep(claim: Document, listers: Listers) -> Iterator[Action]:
    """Yield what completes or repairs a binding, or says that the volume is lost."""
    named = claim["spec"].get("volumeName")
    volume = listers.get(PERSISTENT_VOLUMES, named) if named else None
    if volume is not None and (
        not volume["spec"].get("claimRef")
        or volume["spec"]["claimRef"].get("uid") == claim["metadata"]["uid"]
    ):
        yield from _join(volume, claim)
    elif not named:
        text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        yield from _lost(claim, "ClaimLost", text)
    elif volume is None:
        yield from _lost(
            claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        )
    else:
        text = "Two claims are bound to the same volume, this one is bound incorrectly"
        yield from _lost(claim, "ClaimMisbound", text)


def _lost(claim: Document, reason: str, message: str) -> Iterator[Action]:
    if (claim.get("status") or {}).get("phase") == "Lost":
        return
    metadata, status = claim["metadata"], {"phase": "Lost", "accessModes": None, "capacity": None}
    if (claim.get("status") or {}).get("currentVolumeAttributesClassName"):
        status["currentVolumeAttributesClassName"] = None
    yield Patch(
        PERSISTENT_VOLUME_CLAIMS,
        metadata["name"],
        metadata["namespace"],
        {"status": status},
        subresource="status",
    )
    yield Record(about(claim, PERSISTENT_VOLUME_CLAIMS), "Warning", reason, message)


def _pending(claim: Document) -> Iterator[Action]:
    if (claim.get("status") or {}).get("phase") != "Pending":
        metadata = claim["metadata"]
        patch = {"status": {"phase": "Pending"}}
        yield Patch(
            PERSISTENT_VOLUME_CLAIMS, metadata["name"], metadata["namespace"], patch, subresource="status"
        )


def _volumes_of_deleted_claim(key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
    """Yield the volumes that name a claim which is gone."""
    for volume in listers.all(PERSISTENT_VOLUMES):
        reference = volume["spec"].get("claimRef") or {}
        if (reference.get("namespace"), reference.get("name")) == (key.namespace, key.name):
            yield WakeAt(VolumeKey(volume["metadata"]["name"]), now)


def _was_bound(claim: Document) -> bool:
    return COMPLETED in (claim["metadata"].get("annotations") or {})
