"""How does a pod leave because of a device's taint? Event, condition, deletion; never another pod of its name.

Spec: dra.md 7.4 "Deleting a due pod".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from weir import errors
from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.client.events import ObjectReference
from weir.controllers.devices.eviction_queue import PodKey
from weir.controllers.runtime.actions import ActionContext, Steps
from weir.controllers.runtime.disruption_target import condition_patch, disruption_target
from weir.controllers.runtime.listers import PODS

EVENT_REASON: Final = "DeviceTaintManagerEviction"
CONDITION_REASON: Final = "DeletionByDeviceTaintManager"
CONDITION_MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"


class Left(enum.Enum):
    """What came of an eviction."""

    DELETED = "deleted"
    LEAVING = "was being deleted already"
    GONE = "gone, or replaced by another pod of its name"


@dataclass(frozen=True, slots=True)
class EvictPod(Steps):
    """Tell why, then delete the pod, if it is still the one meant."""

    pod: PodKey
    due: datetime
    rules: tuple[tuple[str, str], ...]  #: names and uids of the rules among the reasons

    async def carry_out(self, hands: ActionContext) -> Left:
        found = await hands.client.find(PODS, self.pod.name, self.pod.namespace)
        if found is None or found["metadata"]["uid"] != self.pod.uid:
            return Left.GONE
        if found["metadata"].get("deletionTimestamp"):
            return self._counted(Left.LEAVING, hands)  # most likely by us, and the answer was lost
        hands.recorder.record(about(self.pod), "Normal", EVENT_REASON, "Marking for deletion")
        now = hands.clock.now()
        condition = disruption_target(found, CONDITION_REASON, CONDITION_MESSAGE, now)
        try:
            if condition is not None:
                await hands.client.patch(
                    PODS,
                    self.pod.name,
                    condition_patch(found, condition),
                    self.pod.namespace,
                    patch_type=STRATEGIC_MERGE_PATCH,
                    subresource="status",
                )
            await hands.client.delete(PODS, self.pod.name, self.pod.namespace, uid=self.pod.uid)
        except errors.NotFound:
            return Left.GONE
        return self._counted(Left.DELETED, hands)

    def _counted(self, left: Left, hands: ActionContext) -> Left:
        late = (hands.clock.now() - self.due).total_seconds()
        hands.metrics.device_pod_deletions.child().inc()
        hands.metrics.device_pod_deletion_duration.child().observe(max(late, 0.0))
        return left


def about(pod: PodKey) -> ObjectReference:
    """Return the reference for events about a pod; no version of it is meant."""
    return ObjectReference("Pod", pod.name, pod.namespace, pod.uid)
