"""Pod creation from templates and pod availability, shared by the workload controllers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from weir.client.cache import ObjectKey
from weir.client.events import ObjectReference
from weir.controllers.runtime.controller import Create, Delete
from weir.controllers.runtime.views import Pod, parse_time
from weir.objects.kind import Document, Kind
from weir.objects.kinds import PODS
from weir.values.names import SUFFIX_ALPHABET


def about(document: Mapping[str, Any], kind: Kind) -> ObjectReference:
    """Return a reference for events about a workload."""
    metadata = document["metadata"]
    return ObjectReference(
        kind.kind,
        metadata["name"],
        metadata.get("namespace", ""),
        metadata["uid"],
        kind.api_version,
        metadata.get("resourceVersion", ""),
    )


def owner_reference(document: Mapping[str, Any], kind: Kind) -> Document:
    """Return the reference that makes *document* the controller of an object."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def template_hash(template: Mapping[str, Any], collisions: int = 0) -> str:
    """Return a short name for what a template says; equal templates have one name.

    >>> template_hash({"spec": {}}) == template_hash({"spec": {}}), len(template_hash({}))
    (True, 10)
    """
    text = msgspec.json.encode([template, collisions], order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest()[:8])
    found = ""
    for _ in range(10):
        number, digit = divmod(number, len(SUFFIX_ALPHABET))
        found += SUFFIX_ALPHABET[digit]
    return found


def make_pod(
    owner: Mapping[str, Any],
    kind: Kind,
    *,
    name: str = "",
    prefix: str = "",
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizer: str = "",
    template: Mapping[str, Any] | None = None,
) -> Create:
    """Return the creation of one pod from the owner's template, with what is given laid over it."""
    template = template if template is not None else owner["spec"]["template"]
    described = template.get("metadata") or {}
    metadata: Document = {
        "labels": {**(described.get("labels") or {}), **(labels or {})},
        "annotations": {**(described.get("annotations") or {}), **(annotations or {})},
        "finalizers": list(
            dict.fromkeys([*(described.get("finalizers") or ()), *([finalizer] if finalizer else ())])
        ),
        "ownerReferences": [owner_reference(owner, kind)],
    }
    if name:
        metadata["name"] = name
    if prefix or not name:
        # A long name leaves room for what the server appends.
        metadata["generateName"] = prefix or f"{owner['metadata']['name']}-"
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {field: value for field, value in metadata.items() if value},
        "spec": {**template["spec"], **(spec or {})},
    }
    generation = owner["metadata"].get("generation", 0)
    return Create(PODS, document, owner["metadata"]["namespace"], about(owner, kind), generation)


def remove_pod(pod: Pod, owner: Mapping[str, Any], kind: Kind) -> Delete:
    """Return the deletion of one pod of the owner's."""
    metadata = pod.metadata
    return Delete(PODS, metadata.name, metadata.namespace, metadata.uid, about=about(owner, kind))


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """Return from when on the pod counts as available; None while it is not ready."""
    ready = pod.status.condition("Ready")
    if ready is None or ready.status != "True":
        return None
    since = parse_time(ready.last_transition_time)
    return (since or datetime.min) + timedelta(seconds=min_ready_seconds) if since else None


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Return whether the pod has been ready for as long as its owner asks."""
    if not min_ready_seconds:
        return pod.ready
    since = available_at(pod, min_ready_seconds)
    return since is not None and since <= now


def scaled(value: int | str | None, total: int, *, up: bool) -> int:
    """Return a number or percentage of *total* as a number.

    >>> scaled("25%", 10, up=True), scaled("25%", 10, up=False), scaled(2, 10, up=True)
    (3, 2, 2)
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return -(-share // 100) if up else share // 100


def owner_keys(old: Any, new: Any, kind: Kind) -> list[ObjectKey]:
    """Return the key of each object of *kind* that controls a changed object, or did before."""
    after = owner_key(new, kind)
    alike = isinstance(new, Pod) and old is not None
    if alike and old.metadata.owner_references is new.metadata.owner_references:
        return [after] if after is not None else []
    return [key for key in dict.fromkeys((owner_key(old, kind), after)) if key is not None]


def owner_key(item: Any, kind: Kind) -> ObjectKey | None:
    """Return the key of the object of *kind* that controls *item*."""
    if item is None:
        return None
    if isinstance(item, dict):
        metadata = item["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] == kind.kind:
                return ObjectKey(metadata.get("namespace", ""), owner["name"])
        return None
    for reference in item.metadata.owner_references or ():
        if reference.controller and reference.kind == kind.kind:
            return ObjectKey(item.metadata.namespace, reference.name)
    return None
