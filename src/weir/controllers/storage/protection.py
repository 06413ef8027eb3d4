"""Protection of PersistentVolumeClaims and VolumeAttributesClasses that are in use, and the condition Unused.

A claim being deleted keeps its finalizer while a scheduled pod names it, finished ones included. The condition Unused
considers pods that may still run, scheduled or not, and is True from when the last of them is gone. A claim uses the
class it has, had before, or is being modified to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Controller, Document, Patch
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers, volume_claims_of
from weir.controllers.runtime.views import Pod
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, by_kind
from weir.objects.quota_usage import attributes_classes_of
from weir.objects.times import format_time

PROTECTION: Final = "kubernetes.io/pvc-protection"
UNUSED: Final = "Unused"


def matters_to_use(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a change of a pod may change which claims are used."""
    return old is None or new is None or old.terminated != new.terminated or old.spec != new.spec


def is_held(claim: Document, listers: Listers) -> bool:
    """Return whether a pod keeps the claim from being removed."""
    return any(pod.spec.node_name for pod in _users(claim, listers))


def use_condition(claim: Document, listers: Listers, now: datetime) -> Iterator[Action]:
    """Yield the condition that says whether a bound claim is used, when it is not so written."""
    used = any(not pod.terminated for pod in _users(claim, listers))
    status = claim.get("status") or {}
    present = [dict(each) for each in status.get("conditions") or ()]
    before = next((each for each in present if each["type"] == UNUSED), None)
    wanted = "False" if used else "True"
    if before is not None and before["status"] == wanted:
        return
    made = {
        "type": UNUSED,
        "status": wanted,
        "lastTransitionTime": format_time(now),
        "reason": "PodUsingPVC" if used else "NoPodsUsingPVC",
        "message": "A pod is currently referencing this PVC"
        if used
        else "No pods are currently referencing this PVC",
    }
    metadata = claim["metadata"]
    patch = {
        "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "status": {"conditions": [*(each for each in present if each["type"] != UNUSED), made]},
    }
    yield Patch(
        PERSISTENT_VOLUME_CLAIMS, metadata["name"], metadata["namespace"], patch, subresource="status"
    )


def unprotect(kind: Kind, document: Document, finalizer: str) -> Iterator[Action]:
    """Yield what takes the finalizer from an object."""
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer in finalizers:
        kept = [each for each in finalizers if each != finalizer] or None
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept}}
        yield Patch(kind, metadata["name"], metadata.get("namespace", ""), patch)


def _users(claim: Document, listers: Listers) -> Iterator[Pod]:
    """Yield the pods that name the claim, or that it was created for."""
    metadata = claim["metadata"]
    owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
    for pod in listers.pods_with_volume_claim(metadata["namespace"], metadata["name"]):
        if metadata["name"] in volume_claims_of(pod, ephemeral=False) or pod.metadata.uid in owners:
            yield pod


# ── VolumeAttributesClass ─────────────────────────────────────────────────────────────────────────────


CLASSES: Final = by_kind("storage.k8s.io/v1", "VolumeAttributesClass")
CLASS_PROTECTION: Final = "kubernetes.io/vac-protection"


class AttributesClassProtection(Controller):
    """The controller that lets unused classes go."""

    name = "volumeattributesclass-protection-controller"
    kinds: Sequence[Kind] = (CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield a class that is being deleted, and those that a volume or claim no longer uses."""
        if kind is CLASSES:
            if new is not None and new["metadata"].get("deletionTimestamp"):
                yield key_of(new)
            return
        left = _used(kind, old) - _used(kind, new)
        yield from (ObjectKey("", name) for name in sorted(left))

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the end of a class that waits for its last user."""
        attributes_class = listers.get(CLASSES, key.name)
        if attributes_class is None or not attributes_class["metadata"].get("deletionTimestamp"):
            return
        for kind in (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS):
            if any(key.name in _used(kind, document) for document in listers.all(kind)):
                return
        yield from unprotect(CLASSES, attributes_class, CLASS_PROTECTION)


def _used(kind: Kind, document: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the classes that a volume or claim refers to."""
    if document is None:
        return set()
    if kind is PERSISTENT_VOLUME_CLAIMS:
        return attributes_classes_of(document)
    return {document["spec"].get("volumeAttributesClassName") or ""} - {""}
