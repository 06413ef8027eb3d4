"""Which change of the cluster can help which waiting pod?

Spec: core.md 3.7 (the hints of each plugin) and 3.8 (event names, who reacts to what). A pod that was rejected waits
for an event that at least one of its rejecting plugins says could change its mind; everything else leaves it
asleep, so that a taint removed from one node wakes the pods it can help and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from weir.gates import Gates
from weir.objects.core import Node, Pod, TopologySpreadConstraint
from weir.objects.requests import host_ports, node_allocatable, pod_requests
from weir.scheduler.claim_queueing_hints import ClaimQueueingHints
from weir.scheduler.plugins.node_declared_features import declared_features, required_features
from weir.scheduler.plugins.node_ports import conflicts
from weir.scheduler.plugins.node_unschedulable import CORDONED
from weir.scheduler.plugins.pod_topology_spread import selector_for
from weir.scheduler.pod_class import PodClass, build, differently_resized, relevant_volumes
from weir.scheduler.pod_counts import Namespaces, Term, carried_terms, read_selector
from weir.scheduler.volumes import CSINodeResources
from weir.selectors.node import pod_selects_node
from weir.taints.toleration import BLOCKING, Evaluate, find_tolerating, untolerated

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
DEVICES: Final = "DynamicResources"
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
    for label, on_event in changed.items():
        if on_event:
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


# ── who is helped ────────────────────────────────────────────────────────────────────────────────

Hint = Callable[["QueueingHints", Pod, ClusterEvent], bool]


class QueueingHints:
    """Asks the plugins that rejected a pod whether an event could help it."""

    def __init__(
        self,
        gates: Gates,
        namespaces: Namespaces | None = None,
        evaluate: Evaluate | None = None,
        claims: ClaimQueueingHints | None = None,
    ) -> None:
        self.gates, self.evaluate, self.claims = gates, evaluate, claims
        self.namespaces: Namespaces = {} if namespaces is None else namespaces
        #: told (plugin, event, `Queue` or `QueueSkip`, seconds) of every hint that was asked
        self.timed: Callable[[str, str, str, float], None] | None = None

    def helps(self, plugin: str, pod: Pod, event: ClusterEvent) -> bool | None:
        """Return whether *event* could help *pod* past *plugin*; None when the plugin does not watch it."""
        watched = WATCHED.get(plugin)
        if watched is None:
            return True  # a plugin without hints is woken by everything
        hint = watched.get(event.label)
        if hint is None:
            return None
        if self.timed is None:
            return hint(self, pod, event)
        started = perf_counter()
        answer = hint(self, pod, event)
        self.timed(plugin, event.label, "Queue" if answer else "QueueSkip", perf_counter() - started)
        return answer

    # ── TaintToleration ──
    def tolerates_node(self, pod: Pod, node: Node) -> bool:
        return not untolerated(node.taints, pod.tolerations, self.gates, BLOCKING, self.evaluate)

    def now_tolerated(self, pod: Pod, event: ClusterEvent) -> bool:
        was = event.old is not None and self.tolerates_node(pod, event.old)
        return not was and self.tolerates_node(pod, event.new)

    # ── NodeUnschedulable ──
    def now_schedulable(self, pod: Pod, event: ClusterEvent) -> bool:
        was_closed = event.old is None or bool(event.old.spec.unschedulable)
        return was_closed and not event.new.spec.unschedulable

    def now_tolerates_cordon(self, pod: Pod, event: ClusterEvent) -> bool:
        return find_tolerating(event.new.tolerations, CORDONED, self.gates, self.evaluate) is not None

    # ── NodeAffinity ──
    def now_selected(self, pod: Pod, event: ClusterEvent) -> bool:
        if not pod_selects_node(pod, event.new.labels, event.new.name, self.gates):
            return False
        return event.old is None or not pod_selects_node(pod, event.old.labels, event.old.name, self.gates)

    # ── NodePorts ──
    def port_freed(self, pod: Pod, event: ClusterEvent) -> bool:
        return any(conflicts(wanted, held) for wanted in host_ports(pod) for held in host_ports(event.old))

    # ── NodeResourcesFit ──
    def now_fits(self, pod: Pod, event: ClusterEvent) -> bool:
        wanted = {r: n for r, n in pod_requests(pod).items() if n > 0}
        new = node_allocatable(event.new) or {}
        if any(new.get(resource, 0) < amount for resource, amount in wanted.items()):
            return False
        if event.old is None:
            return True
        old = node_allocatable(event.old) or {}
        return any(new.get(resource, 0) > old.get(resource, 0) for resource in {*wanted, "pods"})

    def frees_resources(self, pod: Pod, event: ClusterEvent) -> bool:
        before, after = pod_requests(event.old, set_aside=True), pod_requests(event.new, set_aside=True)
        return any(after.get(r, 0) < before.get(r, 0) for r, n in pod_requests(pod).items() if n > 0)

    # ── PodTopologySpread ──
    def counts_in_spread(self, pod: Pod, event: ClusterEvent) -> bool:
        """A pod that the constraints count has come or gone, or is counted otherwise than before."""
        other = event.new or event.old
        if other.metadata.namespace != pod.metadata.namespace:
            return False
        selectors = [read_selector(selector_for(c, pod.metadata.labels or {})) for c in _hard(pod)]
        if not selectors:
            return True  # the profile's constraints rejected it, with a selector that is not the pod's own
        counted = [
            [
                version is not None and s is not None and s.matches(version.metadata.labels or {})
                for s in selectors
            ]
            for version in (event.old, event.new)
        ]
        return counted[0] != counted[1]

    def has_spread_keys(self, pod: Pod, event: ClusterEvent) -> bool:
        keys = [constraint.topology_key for constraint in _hard(pod)]
        if not keys:
            return True  # as above
        versions = [version for version in (event.old, event.new) if version is not None]
        complete = [all(key in version.labels for key in keys) for version in versions]
        if event.label == NODE_LABEL:
            values = [[version.labels.get(key) for key in keys] for version in versions]
            return any(complete) and values[0] != values[-1]
        return any(complete)

    def spread_honours_taints(self, pod: Pod, event: ClusterEvent) -> bool:
        constraints = _hard(pod)
        return not constraints or any(c.node_taints_policy == "Honor" for c in constraints)

    # ── InterPodAffinity ──
    def _required(self, pod: PodClass) -> tuple[list[Term], list[Term]]:
        """Return the terms *pod* must be near to and away from."""
        terms = carried_terms(pod, self.namespaces)
        near = [term for purpose, term, _ in terms if purpose == "affinity"]
        return near, [term for purpose, term, _ in terms if purpose == "anti-affinity"]

    def moves_affinity(self, pod: Pod, event: ClusterEvent) -> bool:
        """Somebody to be near to has come, or somebody to be away from has gone."""
        mine = build(pod)
        near, apart = self._required(mine)
        old, new = (build(version) if version is not None else None for version in (event.old, event.new))
        liked = [version is not None and _selected_by_all(near, version) for version in (old, new)]
        disliked = [version is not None and any(t.selects(version) for t in apart) for version in (old, new)]
        if (liked[1] and not liked[0]) or (disliked[0] and not disliked[1]):
            return True
        if liked[0] and not liked[1] and _selected_by_all(near, mine):
            return True  # the first of a kind may go anywhere, once nobody else is there
        # who leaves takes its own wishes along
        left = old if new is None else None
        return left is not None and any(term.selects(mine) for term in self._required(left)[1])

    def has_affinity_keys(self, pod: Pod, event: ClusterEvent) -> bool:
        """The node may be where the pod can be near to, or away from, those it must."""
        near, apart = self._required(build(pod))
        if not near and not apart:
            return True  # another pod's term rejected it; its topology may be this node's
        labels = event.new.labels
        if event.old is None:  # a node without the label of an anti-affinity is away from everybody
            return all(term.topology_key in labels for term in near)
        before = event.old.labels
        return any(
            term.topology_key in labels and labels[term.topology_key] != before.get(term.topology_key)
            for term in near
        ) or any(
            term.topology_key in before and before[term.topology_key] != labels.get(term.topology_key)
            for term in apart
        )

    # ── NodeDeclaredFeatures ──
    def has_features(self, pod: Pod, event: ClusterEvent) -> bool:
        return required_features(pod) <= declared_features(event.new)

    # ── DynamicResources ──
    def claim_helps(self, pod: Pod, event: ClusterEvent) -> bool:
        return self.claims is None or self.claims.claim_helps(pod, event.old, event.new)

    def has_its_claims(self, pod: Pod, event: ClusterEvent) -> bool:
        return self.claims is None or self.claims.has_its_claims(event.new)

    def class_helps(self, pod: Pod, event: ClusterEvent) -> bool:
        return self.claims is None or self.claims.class_helps(pod, event.old, event.new)

    def class_offers(self, pod: Pod, event: ClusterEvent) -> bool:
        return self.claims is None or self.claims.class_offers(pod, event.old, event.new)

    def devices_help(self, pod: Pod, event: ClusterEvent) -> bool:
        return self.claims is None or self.claims.devices_help(pod, event.new)


def _always(hints: QueueingHints, pod: Pod, event: ClusterEvent) -> bool:
    return True


def _hard(pod: Pod) -> list[TopologySpreadConstraint]:
    """Return the spread constraints of *pod* that can refuse a node."""
    constraints = pod.spec.topology_spread_constraints or ()
    return [each for each in constraints if each.when_unsatisfiable == "DoNotSchedule"]


def _selected_by_all(terms: list[Term], pod: PodClass) -> bool:
    return bool(terms) and all(term.selects(pod) for term in terms)


def _volumes_left(hints: QueueingHints, pod: Pod, event: ClusterEvent) -> bool:
    """A pod with volumes has gone."""
    return bool(relevant_volumes(event.old))


def _attaches_more(hints: QueueingHints, pod: Pod, event: ClusterEvent) -> bool:
    """A driver is new on the node, or attaches more volumes than before."""
    before = {driver.name: driver.allocatable for driver in event.old.spec.drivers}

    def count(allocatable: CSINodeResources | None) -> int:
        return (allocatable.count or 0) if allocatable is not None else 0

    return any(
        driver.name not in before or count(driver.allocatable) > count(before[driver.name])
        for driver in event.new.spec.drivers
    )


def _own_claim(hints: QueueingHints, pod: Pod, event: ClusterEvent) -> bool:
    claim = event.new or event.old
    mine = {
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim is not None
    } | {f"{pod.metadata.name}-{volume.name}" for volume in pod.spec.volumes or () if volume.ephemeral}
    return (claim.metadata.namespace, claim.metadata.name) in {
        (pod.metadata.namespace, name) for name in mine
    }


def _topologies_changed(hints: QueueingHints, pod: Pod, event: ClusterEvent) -> bool:
    return bool(event.old.allowed_topologies != event.new.allowed_topologies)


_VOLUMES: Final[Mapping[str, Hint]] = {
    NODE_ADD: _always,
    NODE_LABEL: _always,
    VOLUME_ADD: _always,
    VOLUME_UPDATE: _always,
    CLAIM_ADD: _own_claim,
    CLAIM_UPDATE: _own_claim,
    CLASS_ADD: _always,
}
#: Plugin → event → whether it helps. A plugin that is not listed is woken by everything.
WATCHED: Final[Mapping[str, Mapping[str, Hint]]] = {
    "SchedulingGates": {OWN_GATES: _always},
    "NodeName": {NODE_ADD: _always},
    "NodeUnschedulable": {
        NODE_ADD: QueueingHints.now_schedulable,
        NODE_TAINT: QueueingHints.now_schedulable,
        OWN_TOLERATION: QueueingHints.now_tolerates_cordon,
    },
    "TaintToleration": {
        NODE_ADD: QueueingHints.now_tolerated,
        NODE_TAINT: QueueingHints.now_tolerated,
        OWN_TOLERATION: _always,
    },
    "NodeAffinity": {NODE_ADD: QueueingHints.now_selected, NODE_LABEL: QueueingHints.now_selected},
    "NodePorts": {NODE_ADD: _always, POD_DELETE: QueueingHints.port_freed},
    "NodeResourcesFit": {
        NODE_ADD: QueueingHints.now_fits,
        NODE_ALLOCATABLE: QueueingHints.now_fits,
        POD_DELETE: _always,
        POD_SCALE_DOWN: QueueingHints.frees_resources,
        OWN_SCALE_DOWN: _always,
        DEVICE_CLASS_ADD: QueueingHints.class_offers,
        DEVICE_CLASS_UPDATE: QueueingHints.class_offers,
    },
    "VolumeBinding": {
        **_VOLUMES,
        CLASS_UPDATE: _topologies_changed,
        CSI_NODE_ADD: _always,
        CSI_NODE_UPDATE: _always,
        CSI_DRIVER_UPDATE: _always,
        CAPACITY_ADD: _always,
        CAPACITY_UPDATE: _always,
    },
    "VolumeZone": _VOLUMES,
    "VolumeRestrictions": {
        NODE_ADD: _always,
        POD_DELETE: _always,
        CLAIM_ADD: _own_claim,
        CLAIM_UPDATE: _own_claim,
    },
    "NodeVolumeLimits": {
        NODE_ADD: _always,
        CSI_NODE_ADD: _always,
        CSI_NODE_UPDATE: _attaches_more,
        POD_DELETE: _volumes_left,
        ATTACHMENT_DELETE: _always,
        VOLUME_ADD: _always,
        CLAIM_ADD: _own_claim,
    },
    DEVICES: {
        NODE_ADD: _always,
        NODE_LABEL: _always,
        NODE_ALLOCATABLE: _always,
        RESOURCE_CLAIM_ADD: QueueingHints.claim_helps,
        RESOURCE_CLAIM_UPDATE: QueueingHints.claim_helps,
        RESOURCE_CLAIM_DELETE: QueueingHints.claim_helps,
        OWN_CLAIMS: QueueingHints.has_its_claims,
        DEVICE_CLASS_ADD: QueueingHints.class_helps,
        DEVICE_CLASS_UPDATE: QueueingHints.class_helps,
        SLICE_ADD: QueueingHints.devices_help,
        SLICE_UPDATE: QueueingHints.devices_help,
    },
    "PodTopologySpread": {
        NODE_ADD: QueueingHints.has_spread_keys,
        NODE_DELETE: QueueingHints.has_spread_keys,
        NODE_LABEL: QueueingHints.has_spread_keys,
        NODE_TAINT: QueueingHints.has_spread_keys,
        POD_ADD: QueueingHints.counts_in_spread,
        POD_DELETE: QueueingHints.counts_in_spread,
        POD_LABEL: QueueingHints.counts_in_spread,
        OWN_LABEL: _always,
        OWN_TOLERATION: QueueingHints.spread_honours_taints,
    },
    "NodeDeclaredFeatures": {NODE_ADD: QueueingHints.has_features, NODE_FEATURE: QueueingHints.has_features},
    "InterPodAffinity": {
        NODE_ADD: QueueingHints.has_affinity_keys,
        NODE_LABEL: QueueingHints.has_affinity_keys,
        POD_ADD: QueueingHints.moves_affinity,
        POD_DELETE: QueueingHints.moves_affinity,
        POD_LABEL: QueueingHints.moves_affinity,
        OWN_LABEL: _always,
    },
}
