"""Table cells of volumes, claims, storage classes and CSI drivers.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

from typing import Any

from weir.apiserver.printers.values import (
    NONE,
    UNSET,
    Cells,
    Document,
    age,
    at,
    name_of,
)

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(found: Any) -> str:
    given = set(found or ())
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def volume_cells(volume: Document, now: float) -> Cells:
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    claim = spec.get("claimRef")
    phase = status.get("phase") or ""
    if at(volume, "metadata", "deletionTimestamp"):
        phase = "Terminating"
    beta = at(volume, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class")
    return [
        name_of(volume),
        at(spec, "capacity", "storage") or "0",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        beta or spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason") or "",
        age(volume, now),
        spec.get("volumeMode") or UNSET,
    ]


def claim_cells(claim: Document, now: float) -> Cells:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    phase = "Terminating" if at(claim, "metadata", "deletionTimestamp") else status.get("phase") or ""
    bound = bool(spec.get("volumeName"))
    return [
        name_of(claim),
        phase,
        spec.get("volumeName") or "",
        (at(status, "capacity", "storage") or "0") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        age(claim, now),
        spec.get("volumeMode") or UNSET,
    ]


def storage_class_cells(found: Document, now: float) -> Cells:
    name = name_of(found)
    if at(found, "metadata", "annotations", "storageclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    return [
        name,
        found.get("provisioner") or "",
        found.get("reclaimPolicy") or "Delete",
        found.get("volumeBindingMode") or "Immediate",
        bool(found.get("allowVolumeExpansion")),
        age(found, now),
    ]


def csi_driver_cells(found: Document, now: float) -> Cells:
    spec = found.get("spec") or {}
    requests = ",".join(str(r.get("audience", "")) for r in spec.get("tokenRequests") or ())
    modes = ",".join(spec.get("volumeLifecycleModes") or ()) or NONE
    return [
        name_of(found),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount", False)),
        bool(spec.get("storageCapacity", False)),
        requests or UNSET,
        bool(spec.get("requiresRepublish", False)),
        modes,
        age(found, now),
    ]
