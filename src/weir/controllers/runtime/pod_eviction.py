"""Evicts a pod: writes the DisruptionTarget condition, then deletes it, guarded by its UID.

Spec: core.md 4.4, dra.md 7.4 "Deleting a due pod".
The device taint eviction controller skips pods that are being deleted already and writes no observedGeneration; the
taint eviction controller marks and deletes those as well. Both as upstream.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from weir import errors
from weir.client.api import STRATEGIC_MERGE_PATCH, Client
from weir.client.events import ObjectReference, Recorder
from weir.clock import Clock
from weir.objects.kinds import PODS
from weir.objects.times import format_time

Document = dict[str, Any]
TYPE = "DisruptionTarget"


def disruption_target(
    pod: Document, reason: str, message: str, now: datetime, *, observed_generation: bool = False
) -> Document | None:
    """Return the condition to write before the deletion; None when the pod says so already."""
    wanted: Document = {"type": TYPE, "status": "True", "reason": reason, "message": message}
    generation = pod["metadata"].get("generation")
    if observed_generation and generation:
        wanted["observedGeneration"] = generation
    present = next((c for c in pod.get("status", {}).get("conditions") or () if c.get("type") == TYPE), None)
    if present is not None and all(present.get(name) == value for name, value in wanted.items()):
        return None
    moved = present is None or present.get("status") != "True"
    since = format_time(now) if moved or present is None else present.get("lastTransitionTime")
    return {**wanted, "lastProbeTime": None, "lastTransitionTime": since}


def condition_patch(pod: Document, condition: Document) -> Document:
    """Return the strategic merge patch that adds or replaces the condition of this very pod."""
    present = [c.get("type") for c in pod.get("status", {}).get("conditions") or ()]
    order = [{"type": type} for type in dict.fromkeys([*present, condition["type"]])]
    status = {"$setElementOrder/conditions": order, "conditions": [condition]}
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}


class Evicted(enum.Enum):
    """What came of an eviction."""

    DELETED = "deleted"
    LEAVING = "was being deleted already"
    GONE = "gone, or replaced by another pod of its name"


@dataclass(frozen=True, slots=True)
class PodEviction:
    """Which pod goes, and what is written about it."""

    namespace: str
    name: str
    uid: str
    reason: str  #: of the condition DisruptionTarget
    message: str
    observed_generation: bool = True  #: whether the condition names the pod's generation
    unless_deleting: bool = False  #: leave a pod alone that is being deleted already
    event: tuple[str, str] | None = None  #: reason and message of an event recorded before the deletion


async def evict_pod(client: Client, clock: Clock, recorder: Recorder, eviction: PodEviction) -> Evicted:
    """Mark and delete the pod, and return what came of it; raises what the server answers."""
    pod = await client.find(PODS, eviction.name, eviction.namespace)
    if pod is None or pod["metadata"]["uid"] != eviction.uid:
        return Evicted.GONE
    if eviction.unless_deleting and pod["metadata"].get("deletionTimestamp"):
        return Evicted.LEAVING
    if eviction.event is not None:
        about = ObjectReference("Pod", eviction.name, eviction.namespace, eviction.uid)
        recorder.record(about, "Normal", *eviction.event)
    condition = disruption_target(
        pod,
        eviction.reason,
        eviction.message,
        clock.now(),
        observed_generation=eviction.observed_generation,
    )
    try:
        if condition is not None:
            await client.patch(
                PODS,
                eviction.name,
                condition_patch(pod, condition),
                eviction.namespace,
                patch_type=STRATEGIC_MERGE_PATCH,
                subresource="status",
                read=False,
            )
        await client.delete(PODS, eviction.name, eviction.namespace, uid=eviction.uid, read=False)
    except errors.NotFound:
        return Evicted.GONE
    return Evicted.DELETED
