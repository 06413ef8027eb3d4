"""Phases of a PersistentVolume: Available, Bound, Released, Failed, and its reclaim policy.

A volume whose claim is gone is Released. Retain keeps it; with Delete its provisioner deletes it, and of volumes
created by hand only a hostPath under /tmp can be deleted, any other is Failed. A volume that the binder gave to a
claim which got another one is Available again, as is a volume pre-bound to a claim that does not exist yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from weir.controllers.runtime.controller import Action, Delete, Document, Patch, Record, WakeAt
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.controllers.storage.protection import unprotect
from weir.controllers.storage.volume_matching import volume_mode
from weir.controllers.workloads.pod_control import about
from weir.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES

PROTECTION: Final = "kubernetes.io/pv-protection"
BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
IN_TREE: Final = "kubernetes.io/"


def settle_volume(volume: Document, listers: Listers, now: datetime) -> Iterator[Action]:
    """Yield what brings a volume in line with its claim."""
    reference = volume["spec"].get("claimRef") or {}
    claim = (
        listers.get(PERSISTENT_VOLUME_CLAIMS, reference.get("name", ""), reference.get("namespace", ""))
        if reference
        else None
    )
    if volume["metadata"].get("deletionTimestamp"):
        if claim is None:
            yield from unprotect(PERSISTENT_VOLUMES, volume, PROTECTION)
        return
    if not reference.get("uid"):
        yield from phase(volume, "Available")
        return
    if claim is None or claim["metadata"]["uid"] != reference["uid"]:
        yield from _release(volume)
        return
    named = claim["spec"].get("volumeName")
    if not named:
        if volume_mode(claim) != volume_mode(volume):
            yield from _report_mode(volume, claim)
        else:
            yield WakeAt(key_of(claim), now)
    elif named == volume["metadata"]["name"]:
        yield from phase(volume, "Bound")
    elif _annotations(volume).get(PROVISIONED_BY) and _policy(volume) == "Delete":
        yield from _release(volume)  # made for the claim, which got another one
    else:
        yield from _unbind(volume)


def phase(volume: Document, name: str, message: str = "") -> Iterator[Patch]:
    """Yield the phase of a volume, when it is not so written."""
    status = volume.get("status") or {}
    if (status.get("phase"), status.get("message") or "") != (name, message):
        patch = {"status": {"phase": name, "message": message or None}}
        yield Patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], "", patch, subresource="status")


def _annotations(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("annotations") or {}


def _policy(volume: Document) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain")


def _unbind(volume: Document) -> Iterator[Action]:
    changes: dict[str, Any] = {"resourceVersion": volume["metadata"]["resourceVersion"]}
    reference: dict[str, Any] | None = {"uid": None}
    if BY_CONTROLLER in _annotations(volume):
        changes["annotations"] = {BY_CONTROLLER: None}
        reference = None
    patch = {"metadata": changes, "spec": {"claimRef": reference}}
    yield Patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], "", patch)
    yield from phase(volume, "Available")


def _release(volume: Document) -> Iterator[Action]:
    if (volume.get("status") or {}).get("phase") not in ("Released", "Failed"):
        yield from phase(volume, "Released")
    if _policy(volume) != "Delete":
        return
    maker = _annotations(volume).get(PROVISIONED_BY, "")
    if (maker and not maker.startswith(IN_TREE)) or volume["spec"].get("csi"):
        return  # its driver removes it
    problem = _cannot_delete(volume)
    if not problem:
        yield Delete(PERSISTENT_VOLUMES, volume["metadata"]["name"], "", volume["metadata"]["uid"])
    elif (volume.get("status") or {}).get("phase") != "Failed":
        yield from phase(volume, "Failed", problem)
        yield Record(about(volume, PERSISTENT_VOLUMES), "Warning", "VolumeFailedDelete", problem)


def _cannot_delete(volume: Document) -> str:
    """Return why nothing can remove a volume that was made by hand; empty when it can be."""
    path = volume["spec"].get("hostPath")
    if path is None:
        name = volume["metadata"]["name"]
        return f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
    where = str(path.get("path", ""))
    # Upstream's pattern is not anchored: anything with a name below /tmp/ somewhere in it passes.
    if not where.partition("/tmp/")[2]:
        return f"host_path deleter only supports /tmp/.+ but received provided {where}"
    return ""


def _report_mode(volume: Document, claim: Document) -> Iterator[Action]:
    text = (
        f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim["metadata"]["name"]}" '
        "due to incompatible volumeMode."
    )
    yield Record(about(volume, PERSISTENT_VOLUMES), "Warning", "VolumeMismatch", text)
    text = (
        f'Cannot bind PersistentVolume "{volume["metadata"]["name"]}" to requested PersistentVolumeClaim '
        "due to incompatible volumeMode."
    )
    yield Record(about(claim, PERSISTENT_VOLUME_CLAIMS), "Warning", "VolumeMismatch", text)
