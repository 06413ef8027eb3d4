"""StorageObjectInUseProtection and PersistentVolumeClaimResize.

Spec: apiserver.md 5.2 (finalizers of volumes and claims). Volumes and claims get the protection finalizer; a claim can
grow only when it is bound and its class allows expansion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.apiserver.admission.attributes import CREATE, UPDATE, Attributes, Reader
from weir.objects.kind import Kind
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from weir.objects.quota_usage import class_of_claim
from weir.values.quantity import find_quantity

FINALIZERS = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
    "VolumeAttributesClass": "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection:
    name = "StorageObjectInUseProtection"

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == CREATE and kind.kind in FINALIZERS and not subresource

    def admit(self, a: Attributes) -> None:
        assert a.object is not None
        finalizers = a.object.setdefault("metadata", {}).setdefault("finalizers", [])
        finalizer = FINALIZERS[a.kind.kind]
        if finalizer not in finalizers:
            finalizers.append(finalizer)


class PersistentVolumeClaimResize:
    name = "PersistentVolumeClaimResize"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: str, kind: Kind, subresource: str) -> bool:
        return operation == UPDATE and kind is PERSISTENT_VOLUME_CLAIMS and not subresource

    def validate(self, a: Attributes) -> None:
        assert a.object is not None and a.old is not None
        before, after = (_storage(claim) for claim in (a.old, a.object))
        if before is None or after is None or not before < after:
            return
        if (a.old.get("status") or {}).get("phase") != "Bound":
            raise a.forbidden("Only bound persistent volume claims can be expanded")
        name = class_of_claim(a.object)
        found = self._reader.get_now(STORAGE_CLASSES, "", name) if name else None
        if found is None or name != class_of_claim(a.old) or not found.get("allowVolumeExpansion"):
            raise a.forbidden(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions "
                "the pvc must support resize"
            )


def _storage(claim: Mapping[str, Any]) -> Any:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return find_quantity(str(requests.get("storage", "0")))
