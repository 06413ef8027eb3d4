"""Cluster events and queueing hints: which events may make a rejected pod schedulable.

Spec: core.md 3.8 (event names, who reacts to what). A rejected pod waits for an event that the hint of at least one
of its rejecting plugins accepts, so that a taint removed from one node wakes only the pods it can help. A plugin that
registers no events, or is unknown, is woken by every event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from weir.objects.core import Node, Pod
from weir.objects.requests import pod_requests
from weir.scheduler.pod_class import differently_resized

NODE_ADD: Final = "NodeAdd"
NODE_DELETE: Final = "NodeDelete"
NODE_TAINT: Final = "NodeUpdateNodeTaint"
NODE_LABEL: Final = "NodeUpdateNodeLabel"
NODE_ALLOCATABLE: Final = "NodeUpdateNodeAllocatable"
NODE_CONDITION: Final = "NodeUpdateNodeCondition"
NODE_ANNOTATION: Final = "NodeUpdateNodeAnnotation"
NODE_FEATURE: Final = "NodeUpdateNodeDeclaredFeature"
POD_ADD: Final = "AssignedPodAdd"
POD_DELETE: Final = "AssignedPodDelete"
POD_LABEL: Final = "AssignedPodUpdatePodLabel"
POD_SCALE_DOWN: Final = "AssignedPodUpdatePodScaleDown"
OWN_TOLERATION: Final = "TargetPodUpdatePodToleration"
OWN_LABEL: Final = "TargetPodUpdatePodLabel"
OWN_GATES: Final = "TargetPodUpdatePodSchedulingGatesEliminated"
OWN_SCALE_DOWN: Final = "TargetPodUpdatePodScaleDown"
OWN_CLAIMS: Final = "TargetPodUpdatePodGeneratedResourceClaim"
NEW_POD: Final = "UnscheduledPodAdd"
VOLUME_ADD: Final = "PersistentVolumeAdd"
VOLUME_UPDATE: Final = "PersistentVolumeUpdate"
CLAIM_ADD: Final = "PersistentVolumeClaimAdd"
CLAIM_UPDATE: Final = "PersistentVolumeClaimUpdate"
CLASS_ADD: Final = "StorageClassAdd"
CLASS_UPDATE: Final = "StorageClassUpdate"
CSI_NODE_ADD: Final = "CSINodeAdd"
CSI_NODE_UPDATE: Final = "CSINodeUpdate"
CSI_DRIVER_UPDATE: Final = "CSIDriverUpdate"
ATTACHMENT_DELETE: Final = "VolumeAttachmentDelete"
CAPACITY_ADD: Final = "CSIStorageCapacityAdd"
CAPACITY_UPDATE: Final = "CSIStorageCapacityUpdate"
RESOURCE_CLAIM_ADD: Final = "ResourceClaimAdd"
RESOURCE_CLAIM_UPDATE: Final = "ResourceClaimUpdate"
RESOURCE_CLAIM_DELETE: Final = "ResourceClaimDelete"
DEVICE_CLASS_ADD: Final = "DeviceClassAdd"
DEVICE_CLASS_UPDATE: Final = "DeviceClassUpdate"
SLICE_ADD: Final = "ResourceSliceAdd"
SLICE_UPDATE: Final = "ResourceSliceUpdate"
# what happens in the queue itself
ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
BACKOFF_OVER: Final = "BackoffComplete"
POPPED_EARLY: Final = "PopFromBackoffQ"
#: These two move every pod, whatever rejected it.
FORCED: Final = "ForceActivate"
TIMEOUT: Final = "UnschedulableTimeout"
WILDCARDS: Final = frozenset({FORCED, TIMEOUT})


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One change: its name, and the object before and after."""

    label: str
    old: Any = None
    new: Any = None
    pods: Collection[str] | None = None  #: the only pods it can help, by key; None: it may help any


#: Whether an event could make a pod schedulable that the plugin rejected: Queue (True) or QueueSkip.
QueueingHint = Callable[[Pod, ClusterEvent], bool]


# ── what changed ─────────────────────────────────────────────────────────────────────────────────


def node_events(old: Node | None, new: Node | None) -> Iterator[ClusterEvent]:
    """Yield what a change of a node means; several things can change at once."""
    if old is None or new is None:
        yield ClusterEvent(NODE_ADD if old is None else NODE_DELETE, old, new)
        return
    changed = {
        NODE_TAINT: old.taints != new.taints or bool(old.spec.unschedulable and not new.spec.unschedulable),
        NODE_LABEL: old.labels != new.labels,
        NODE_ALLOCATABLE: old.status.allocatable != new.status.allocatable,
        NODE_CONDITION: _conditions(old) != _conditions(new),
        NODE_ANNOTATION: old.metadata.annotations != new.metadata.annotations,
        NODE_FEATURE: old.status.declared_features != new.status.declared_features,
    }
    for label, differs in changed.items():
        if differs:
            yield ClusterEvent(label, old, new)


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions or ()}


def pod_events(old: Pod | None, new: Pod | None) -> Iterator[ClusterEvent]:
    """Yield what a change of a pod on a node means to others."""
    if old is None or new is None:
        yield ClusterEvent(POD_ADD if old is None else POD_DELETE, old, new)
        return
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        yield ClusterEvent(POD_LABEL, old, new)
    if _scaled_down(old, new):
        yield ClusterEvent(POD_SCALE_DOWN, old, new)


def object_events(kind: str, old: Any, new: Any) -> Iterator[ClusterEvent]:
    """Yield what a change of an object of another *kind* means."""
    action = "Add" if old is None else "Delete" if new is None else "Update"
    yield ClusterEvent(f"{kind}{action}", old, new)


def own_events(old: Pod, new: Pod) -> Iterator[ClusterEvent]:
    """Yield what a change of a waiting pod means to itself."""
    if len(old.tolerations) != len(new.tolerations):  # tolerations can only be added
        yield ClusterEvent(OWN_TOLERATION, old, new)
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        yield ClusterEvent(OWN_LABEL, old, new)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield ClusterEvent(OWN_GATES, old, new)
    if _scaled_down(old, new):
        yield ClusterEvent(OWN_SCALE_DOWN, old, new)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        yield ClusterEvent(OWN_CLAIMS, old, new)


def _scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec == new.spec and not differently_resized(old, new):
        return False
    before, after = pod_requests(old, set_aside=True), pod_requests(new, set_aside=True)
    return any(after.get(resource, 0) < amount for resource, amount in before.items())


# ── registered plugins ───────────────────────────────────────────────────────────────────────────

#: Plugin → event → hint, as `events_to_register` returns them.
RegisteredEvents = Mapping[str, Mapping[str, QueueingHint]]


def always(pod: Pod, event: ClusterEvent) -> bool:
    """A hint for events that may help every pod."""
    return True


class QueueingHints:
    """Asks the plugins that rejected a pod whether an event could help it."""

    def __init__(self, registered: Mapping[str, RegisteredEvents]) -> None:
        """*registered* holds the events of each profile's plugins, by the profile's name."""
        self._registered = registered
        #: called with (plugin, event, `Queue` or `QueueSkip`, seconds) for every hint evaluated
        self.timed: Callable[[str, str, str, float], None] | None = None

    def helps(self, plugin: str, pod: Pod, event: ClusterEvent) -> bool | None:
        """Return whether *event* could help *pod* past *plugin*; None when the plugin did not register it."""
        events = self._registered.get(pod.spec.scheduler_name, {}).get(plugin)
        if not events:
            return True
        hint = events.get(event.label)
        if hint is None:
            return None
        if self.timed is None:
            return hint(pod, event)
        started = perf_counter()
        answer = hint(pod, event)
        self.timed(plugin, event.label, "Queue" if answer else "QueueSkip", perf_counter() - started)
        return answer

    def registers(self, plugin: str, label: str) -> bool:
        """Return whether *plugin* registers for events called *label* in some profile."""
        found = [events for profile in self._registered.values() if (events := profile.get(plugin))]
        return not found or any(label in events for events in found)
