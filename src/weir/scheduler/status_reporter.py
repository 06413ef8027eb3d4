"""Reports a pod's attempts: events, the PodScheduled condition, nominatedNodeName.

Spec: core.md 3.10 "Events and conditions". A condition is written only when it changed; a failed status write does
not fail the attempt, because the next one writes it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.client.api import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from weir.client.events import ObjectReference
from weir.client.series import SeriesRecorder
from weir.clock import Clock
from weir.errors import NotFound, WeirError
from weir.objects.core import ObjectMeta, Pod
from weir.objects.kinds import PODS
from weir.objects.times import format_time
from weir.observe.logs import Log, ObjectRef


class StatusReporter:
    """Writes events and pod statuses for all profiles of one scheduler."""

    def __init__(
        self, client: Client, clock: Clock, recorders: Mapping[str, SeriesRecorder], log: Log | None = None
    ) -> None:
        self._client, self._clock, self._recorders = client, clock, recorders
        self._log = log or Log("weir.scheduler")

    def record_event(
        self, pod: Pod, type: str, reason: str, action: str, note: str, reporter: str | None = None
    ) -> None:
        """Record an event about *pod* in the name of its profile, or of *reporter*."""
        recorder = self._recorders.get(reporter or pod.spec.scheduler_name)
        if recorder is not None:
            recorder.record(ObjectReference.of_pod(pod), type, reason, action, note)

    def record_rule_event(self, rule: ObjectMeta, reason: str, note: str) -> None:
        """Record a warning about a DeviceTaintRule in the name of the first profile."""
        about = ObjectReference(
            "DeviceTaintRule", rule.name, "", rule.uid, "resource.k8s.io/v1", rule.resource_version
        )
        for recorder in list(self._recorders.values())[:1]:
            recorder.record(about, "Warning", reason, "Scheduling", note)

    async def set_condition(self, pod: Pod, reason: str, message: str, promised: str | None) -> None:
        """Write the PodScheduled condition (and the promise of a node) when it is new."""
        present = next((c for c in pod.status.conditions or () if c.type == "PodScheduled"), None)
        same = present is not None and (present.status, present.reason, present.message) == (
            "False",
            reason,
            message,
        )
        status: dict[str, Any] = {}
        if not same:
            condition: dict[str, Any] = {
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "observedGeneration": pod.metadata.generation,
                "lastProbeTime": None,
            }
            if (
                present is None or present.status != "False"
            ):  # other words for the same status are no transition
                condition["lastTransitionTime"] = format_time(self._clock.now())
            status["conditions"] = [condition]
        if promised is not None and promised != pod.status.nominated_node_name:
            status["nominatedNodeName"] = promised or None
        if status:
            about = ObjectRef(pod.metadata.namespace, pod.metadata.name)
            self._log.v(3, "Updating pod condition", pod=about, conditionStatus="False", reason=reason)
            await self.patch_status(pod, status)

    async def patch_status(self, pod: Pod, status: dict[str, Any]) -> None:
        """Write part of the pod's status; a failure is logged and left to the next attempt."""
        kind = MERGE_PATCH
        if "conditions" in status:
            kind = STRATEGIC_MERGE_PATCH
            known = [condition.type for condition in pod.status.conditions or ()]
            order = dict.fromkeys([*known, *(condition["type"] for condition in status["conditions"])])
            status = {**status, "$setElementOrder/conditions": [{"type": each} for each in order]}
        try:
            await self._client.patch(
                PODS,
                pod.metadata.name,
                {"metadata": {"uid": pod.metadata.uid}, "status": status},
                pod.metadata.namespace,
                patch_type=kind,
                subresource="status",
                read=False,
            )
        except (WeirError, OSError, TimeoutError) as error:
            # The next attempt writes it again; a pod that is gone needs no status.
            if not isinstance(error, NotFound):
                self._log.info("pod status not written", pod=pod.key, error=str(error))
