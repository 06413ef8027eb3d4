"""VolumeBinding: schedules pods to nodes where their volumes are usable or can be provisioned.

Spec: core.md 3.7.6; KEP-5721 "PersistentVolume Node Affinity". A bound claim restricts the pod to the nodes its
volume's node affinity selects (Semver operators included). A claim with WaitForFirstConsumer needs a matching free
volume or a provisioner per node. The node where the claims take the smallest share of the storage scores best.
Reserve takes both, PreBind writes them and waits until the claims are bound. `matchFields` of a volume is ignored, so
a term with nothing else matches every node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.volumes import PersistentVolumeClaim
from weir.scheduler.claim_reasons import (
    ClaimUnusable,
    NoStorageLeft,
    NothingToBind,
    VolumeElsewhere,
    VolumeMissing,
)
from weir.scheduler.framework import (
    ClusterScorePlugin,
    Code,
    Extensions,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    ReservePlugin,
    Scope,
    Status,
)
from weir.scheduler.node_columns import Bools, Ids, Ints
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.node_affinity import LabelJudge, unmet_terms
from weir.scheduler.plugins.node_resources_fit import broken_line
from weir.scheduler.plugins.volume_matcher import NO_SPACE, NOTHING_TO_BIND, VolumeMatcher, usable_on
from weir.scheduler.plugins.volume_reservation import VolumeReservation
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import (
    CAPACITY_ADD,
    CAPACITY_UPDATE,
    CLAIM_ADD,
    CLAIM_UPDATE,
    CLASS_ADD,
    CLASS_UPDATE,
    CSI_DRIVER_UPDATE,
    CSI_NODE_ADD,
    CSI_NODE_UPDATE,
    NODE_ADD,
    NODE_LABEL,
    VOLUME_ADD,
    VOLUME_UPDATE,
    ClusterEvent,
    QueueingHint,
    always,
)
from weir.scheduler.reasons import Reason
from weir.scheduler.volumes import (
    Storage,
    is_bound,
    is_claim_of_pod,
    pod_claims,
)

NAME: Final = "VolumeBinding"
_CONFLICT, _LOST = 1, 8  # the others are the matcher's
_REASONS: Final = {
    _CONFLICT: VolumeElsewhere.words,
    NOTHING_TO_BIND: NothingToBind.words,
    NO_SPACE: NoStorageLeft.words,
    _LOST: VolumeMissing.words,
}
#: Points (share of the storage in percent, score from 0 to 10) of a broken line.
Shape = tuple[tuple[int, int], ...]
EMPTIEST_FIRST: Final[Shape] = ((0, 10), (100, 0))
IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True)
class PodVolumeClaims:
    """A pod's claims by what has to be done about them."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()


def sort_claims(pod: Pod, storage: Storage) -> PodVolumeClaims | Status:
    """Return the pod's claims, or why no node can take it as they are."""
    problem = next(unusable_claims(pod, storage), None)
    if problem is not None:
        return _unresolvable(problem.text)
    namespace = pod.metadata.namespace or "default"
    found = [storage.claim(namespace, name) for name, _ in pod_claims(pod)]
    claims = [claim for claim in found if claim is not None]
    return PodVolumeClaims(
        tuple(claim for claim in claims if is_bound(claim)),
        tuple(claim for claim in claims if not is_bound(claim)),
    )


def unusable_claims(pod: Pod, storage: Storage) -> Iterator[ClaimUnusable]:
    """Yield the claims because of which no node can take *pod*; the scheduler names the first."""
    namespace = pod.metadata.namespace or "default"
    immediate: list[str] = []
    for name, ephemeral in pod_claims(pod):
        claim = storage.claim(namespace, name)
        if claim is None:
            text = f'persistentvolumeclaim "{name}" not found'
            if ephemeral:
                text = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            yield ClaimUnusable(name, text, missing=True)
        elif claim.status.phase == "Lost":
            lost = claim.spec.volume_name
            text = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"'
            yield ClaimUnusable(name, text)
        elif claim.metadata.deletion_timestamp:
            yield ClaimUnusable(name, f'persistentvolumeclaim "{name}" is being deleted')
        elif ephemeral and not _made_for(claim, pod):
            text = f"PVC {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name}"
            yield ClaimUnusable(name, f"{text} (pod is not owner)")
        elif not is_bound(claim) and (claim.spec.volume_name or not storage.waits_for_consumer(claim)):
            immediate.append(name)
    for name in immediate:
        yield ClaimUnusable(name, IMMEDIATE)


def _made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    owners = claim.metadata.owner_references or ()
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in owners)


def _unresolvable(text: str) -> Status:
    return Status(Code.UNRESOLVABLE, (text,), NAME)


class VolumeBinding(Plugin):
    """The plugin over one cluster's storage."""

    name = NAME

    def __init__(
        self, table: NodeTable, storage: Storage, gates: Gates, shape: Shape = EMPTIEST_FIRST
    ) -> None:
        self._table, self._storage, self._gates, self._shape = table, storage, gates, shape

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod without claims."""
        if next(pod_claims(pod.pod), None) is None:
            return Extensions()
        bound = BoundVolumeBinding(self._storage, pod.pod, self._table, self._gates, self._shape)
        return Extensions(pre_filter=bound, filter=bound, cluster_score=bound, reserve=bound)

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: always,
            NODE_LABEL: always,
            VOLUME_ADD: always,
            VOLUME_UPDATE: always,
            CLAIM_ADD: is_claim_of_pod,
            CLAIM_UPDATE: is_claim_of_pod,
            CLASS_ADD: always,
            CLASS_UPDATE: self._topologies_changed,
            CSI_NODE_ADD: always,
            CSI_NODE_UPDATE: always,
            CSI_DRIVER_UPDATE: always,
            CAPACITY_ADD: always,
            CAPACITY_UPDATE: always,
        }

    def _topologies_changed(self, pod: Pod, event: ClusterEvent) -> bool:
        return bool(event.old.allowed_topologies != event.new.allowed_topologies)


class BoundVolumeBinding(FilterPlugin, PreFilterPlugin, ClusterScorePlugin, ReservePlugin):
    name = NAME
    scope = Scope.CLUSTER

    def __init__(self, storage: Storage, pod: Pod, table: NodeTable, gates: Gates, shape: Shape) -> None:
        self._storage, self._pod, self._table = storage, pod, table
        self._shape = shape if gates.enabled("StorageCapacityScoring") else ()
        self._labels, self._gates = LabelJudge(table, gates), gates
        self._codes: Ids = np.zeros(0, np.int32)
        self._seen: object = None
        self._matcher: VolumeMatcher | None = None

    def pre_filter(self) -> Status | None:
        """Return why no node can take the pod, or None."""
        claims = sort_claims(self._pod, self._storage)
        return claims if isinstance(claims, Status) else None

    def codes(self, rows: Any) -> Ids:
        """Return 0, or the sum of what speaks against each node."""
        self._refresh()
        return self._codes[rows]

    def status(self, code: int) -> Status:
        return Status(Code.UNRESOLVABLE, tuple(text for bit, text in _REASONS.items() if code & bit), NAME)

    def unusable(self) -> tuple[ClaimUnusable, ...]:
        """Return every claim because of which no node can take the pod; PreFilter names the first."""
        return tuple(unusable_claims(self._pod, self._storage))

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        """Return what speaks against the node, in the order `status` names it."""
        found: list[Reason] = []
        if code & _CONFLICT:
            found.append(self._first_elsewhere(row))
        if code & NOTHING_TO_BIND:
            found.append(NothingToBind())
        if code & NO_SPACE:
            found.append(NoStorageLeft())
        if code & _LOST:
            found += self._lost()
        return tuple(found)

    def _bound(self) -> tuple[PersistentVolumeClaim, ...]:
        claims = sort_claims(self._pod, self._storage)
        return () if isinstance(claims, Status) else claims.bound

    def _first_elsewhere(self, row: int) -> VolumeElsewhere:
        node = self._table.nodes[row]
        assert node is not None
        for claim in self._bound():
            volume = self._storage.volume(claim.spec.volume_name)
            if volume is not None and not usable_on(volume, self._labels)[row]:
                affinity = volume.spec.node_affinity
                required = affinity.required if affinity else None
                terms = unmet_terms(required, node.labels, None, self._gates) if required else None
                return VolumeElsewhere(claim.metadata.name, volume.metadata.name, terms or ())
        raise AssertionError(f"node {node.name} was refused for no volume")

    def _lost(self) -> list[VolumeMissing]:
        return [
            VolumeMissing(claim.metadata.name, claim.spec.volume_name)
            for claim in self._bound()
            if self._storage.volume(claim.spec.volume_name) is None
        ][:1]

    def _refresh(self) -> None:
        seen = (self._storage.version, self._table.nodes_version)
        if self._seen == seen:
            return
        self._seen = seen
        size = self._table.size
        codes: Ids = np.zeros(len(self._table.alive), np.int32)
        claims = sort_claims(self._pod, self._storage)
        if isinstance(claims, Status):  # without PreFilter: infeasible everywhere
            codes[:size] = NOTHING_TO_BIND
        else:
            self._judge_bound(claims.bound, codes)
            self._matcher = None
            if claims.waiting:
                self._matcher = VolumeMatcher(claims.waiting, self._storage, self._table, self._labels)
                for row in np.flatnonzero(self._table.alive[:size]).tolist():
                    codes[row] |= self._matcher.plan(row).refused
        self._codes = codes

    def _judge_bound(self, claims: tuple[PersistentVolumeClaim, ...], codes: Ids) -> None:
        """Hold the volumes of bound claims against every node; the first that speaks against a node decides."""
        size = self._table.size
        undecided: Bools = np.ones(size, np.bool_)
        for claim in claims:
            volume = self._storage.volume(claim.spec.volume_name)
            if volume is None:
                codes[:size][undecided] |= _LOST
                return
            elsewhere = undecided & ~usable_on(volume, self._labels)
            codes[:size][elsewhere] |= _CONFLICT
            undecided &= ~elsewhere

    def normalized_scores(self, feasible: Bools) -> Ints | None:
        """Return a score from 0 to 100 for each node, or None when the storage makes no difference."""
        self._refresh()
        if not self._shape or self._matcher is None:
            return None
        scores: Ints = np.zeros(self._table.size, np.int64)
        for row in np.flatnonzero(feasible).tolist():
            shares = self._matcher.shares(self._matcher.plan(row))
            if shares:
                each = broken_line(np.array(shares, np.int64), self._shape)
                scores[row] = (2 * int(each.sum()) + len(each)) // (2 * len(each))  # rounded half up
        return scores

    def reserve(self, node: str) -> VolumeReservation | None:
        """Promise what the pod needs on *node*; None when all its claims are bound."""
        self._refresh()
        if self._matcher is None:
            return None
        plan = self._matcher.plan(self._table.row_of[node])
        for volume, claim in plan.bindings:
            self._storage.promise_volume(volume.metadata.name, claim)
        for claim in plan.provisions:
            self._storage.promise_claim(claim, node)
        return VolumeReservation(self._storage, plan, node)
