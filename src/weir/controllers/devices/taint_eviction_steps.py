"""Evicts one pod because of a device taint: event, DisruptionTarget condition, deletion guarded by UID.

Spec: dra.md 7.4 "Deleting a due pod".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from weir.client.events import ObjectReference
from weir.controllers.devices.eviction_queue import PodKey
from weir.controllers.runtime.actions import ActionContext, Steps
from weir.controllers.runtime.pod_eviction import Evicted, PodEviction, evict_pod

EVENT_REASON: Final = "DeviceTaintManagerEviction"
CONDITION_REASON: Final = "DeletionByDeviceTaintManager"
CONDITION_MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"


@dataclass(frozen=True, slots=True)
class EvictPod(Steps):
    """Record why, then delete the pod, if it is still the one meant."""

    pod: PodKey
    due: datetime
    rules: tuple[tuple[str, str], ...]  #: names and uids of the rules among the reasons

    async def carry_out(self, context: ActionContext) -> Evicted:
        eviction = PodEviction(
            *self.pod,
            CONDITION_REASON,
            CONDITION_MESSAGE,
            observed_generation=False,
            unless_deleting=True,
            event=(EVENT_REASON, "Marking for deletion"),
        )
        evicted = await evict_pod(context.client, context.clock, context.recorder, eviction)
        if evicted is not Evicted.GONE:  # LEAVING: most likely by us, and the answer was lost
            late = (context.clock.now() - self.due).total_seconds()
            context.metrics.device_pod_deletions.child().inc()
            context.metrics.device_pod_deletion_duration.child().observe(max(late, 0.0))
        return evicted


def about(pod: PodKey) -> ObjectReference:
    """Return the reference for events about a pod; no version of it is meant."""
    return ObjectReference("Pod", pod.name, pod.namespace, pod.uid)
