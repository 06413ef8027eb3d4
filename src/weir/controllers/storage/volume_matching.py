"""Matches a claim to a volume, with the reason why a named volume does not fit.

A claim that names a volume gets that one or none. Otherwise a volume pre-bound to the claim comes first, then, of the
available ones with its class, modes, labels and size, the smallest of those with the fewest access modes. With
WaitForFirstConsumer nothing is chosen here: the scheduler writes its choice into the volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weir.selectors.labels import from_object
from weir.values.quantity import Quantity, find_quantity

CLASS: Final = "volume.beta.kubernetes.io/storage-class"  #: how a class was named before there was a field

Document = Mapping[str, Any]


def class_of(document: Document) -> str:
    """Return the name of the class a claim or volume has; empty for none.

    >>> class_of({"metadata": {"annotations": {CLASS: "old"}}, "spec": {"storageClassName": "new"}})
    'old'
    """
    annotations = document["metadata"].get("annotations") or {}
    return str(annotations.get(CLASS) or document["spec"].get("storageClassName") or "")


def has_class(claim: Document) -> bool:
    """Return whether the claim says which class it wants; "none" is an answer, too."""
    return CLASS in (claim["metadata"].get("annotations") or {}) or (
        claim["spec"].get("storageClassName") is not None
    )


def is_prebound_to(volume: Document, claim: Document, *, exactly: bool = False) -> bool:
    """Return whether the volume names the claim; with *exactly* also by its uid."""
    reference = volume["spec"].get("claimRef") or {}
    metadata = claim["metadata"]
    same = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
    uids = (metadata["uid"],) if exactly else (metadata["uid"], None, "")
    return same and reference.get("uid") in uids


def mismatch(claim: Document, volume: Document) -> str:
    """Return why a volume that a claim names cannot be its; empty when it can."""
    asked, has = claim["spec"], volume["spec"]
    if volume["metadata"].get("deletionTimestamp"):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if _size(has.get("capacity")) < _size((asked.get("resources") or {}).get("requests")):
        return "requested PV is too small"
    if class_of(claim) != class_of(volume):
        return "storageClassName does not match"
    if (asked.get("volumeAttributesClassName") or "") != (has.get("volumeAttributesClassName") or ""):
        return "volumeAttributesClassName does not match"
    if volume_mode(claim) != volume_mode(volume):
        return "incompatible volumeMode"
    if not set(asked.get("accessModes") or ()) <= set(has.get("accessModes") or ()):
        return "incompatible accessMode"
    return ""


def find_volume(claim: Document, volumes: Iterable[Document], *, waits: bool) -> Document | None:
    """Return the volume for a claim that names none; when it *waits*, only one that is kept for it."""
    candidates = [
        volume
        for volume in volumes
        if not mismatch(claim, volume) or (is_prebound_to(volume, claim) and _prebound_fits(claim, volume))
    ]
    kept = [volume for volume in candidates if is_prebound_to(volume, claim)]
    if kept:
        return min(kept, key=_order)
    if waits:
        return None
    selector = from_object(claim["spec"]["selector"]) if claim["spec"].get("selector") else None
    free = [
        volume
        for volume in candidates
        if not volume["spec"].get("claimRef")
        and (selector is None or selector.matches(volume["metadata"].get("labels") or {}))
    ]
    return min(free, key=_order, default=None)


def _prebound_fits(claim: Document, volume: Document) -> bool:
    """Return whether a volume pre-bound to the claim fits; its class is not compared."""
    return mismatch(claim, volume) in ("", "storageClassName does not match")


def volume_mode(document: Document) -> str:
    """Return how a claim or volume is used: as a file system or as a raw device."""
    return str(document["spec"].get("volumeMode") or "Filesystem")


def _order(volume: Document) -> tuple[int, int, str]:
    spec = volume["spec"]
    return len(spec.get("accessModes") or ()), _size(spec.get("capacity")), volume["metadata"]["name"]


def _size(amounts: Mapping[str, Any] | None) -> int:
    found: Quantity | None = find_quantity(str((amounts or {}).get("storage", "0")))
    return found.scaled(0) if found is not None else 0
