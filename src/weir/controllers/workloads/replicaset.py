"""ReplicaSet and ReplicationController controllers: create missing pods and delete surplus ones.

When the API server rejects a pod the condition ReplicaFailure says so; pods that kubelets reject are replaced with
backoff. Deletion order: unscheduled, not running and not ready pods first, then by
`controller.kubernetes.io/pod-deletion-cost`, then pods on nodes with more of the set's pods, then the youngest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Controller, Patch, WakeAt
from weir.controllers.runtime.controller_refs import Claimants, claim
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod, parse_time
from weir.controllers.workloads.failed_pod_backoff import EarlyLosses, not_before
from weir.controllers.workloads.pod_control import (
    available_at,
    is_available,
    make_pod,
    owner_keys,
    remove_pod,
)
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import PODS, REPLICA_SETS, by_kind
from weir.objects.times import format_time

REPLICATION_CONTROLLERS: Final = by_kind("v1", "ReplicationController")
AT_ONCE: Final = 500
COST: Final = "controller.kubernetes.io/pod-deletion-cost"
FAILURE: Final = "ReplicaFailure"
_ACTIVE: Final = attrgetter("active")


class ReplicaSets(Controller):
    """The ReplicaSet controller."""

    name: str = "replicaset-controller"
    kind: Kind = REPLICA_SETS

    def __init__(self, gates: Gates) -> None:
        self.kinds = (self.kind, PODS)
        self._claimants = Claimants()
        self._lost = EarlyLosses()

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the ReplicaSet that changed, or whose pod did, or that may want a pod without an owner."""
        if kind is self.kind:
            self._claimants.changed(old, new)
            metadata = (new or old)["metadata"]
            if new is None:
                self._lost.forget(metadata["uid"])
            yield ObjectKey(metadata["namespace"], metadata["name"])
            return
        self._lost.changed(old, new)
        yield from owner_keys(old, new, self.kind)
        yield from self._claimants.concerned(old, new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what brings the number of pods in line, and the status with them."""
        replicaset = listers.get(self.kind, key.name, key.namespace)
        if replicaset is None:
            return
        claimed = claim(replicaset, self.kind, listers, PODS, considers=_ACTIVE)
        yield from claimed.changes
        pods: list[Pod] = [pod for pod in claimed.mine if pod.active]
        wanted = replicaset["spec"].get("replicas", 1)
        if not replicaset["metadata"].get("deletionTimestamp"):
            later = None
            if len(pods) < wanted:
                lost = self._lost.until(replicaset["metadata"]["uid"], now)
                later = max(filter(None, (not_before(claimed.mine, now), lost)), default=None)
            if later is not None:
                yield WakeAt(key, later)
            for _ in range(min(wanted - len(pods), AT_ONCE) if later is None else 0):
                yield make_pod(replicaset, self.kind)
            surplus = len(pods) - wanted
            for pod in deletion_order(pods, now)[: min(surplus, AT_ONCE)] if surplus > 0 else ():
                yield remove_pod(pod, replicaset, self.kind)
        terminating = sum(pod.deleting and not pod.terminated for pod in claimed.mine)
        yield from self._status(key, replicaset, pods, terminating, now)

    def create_refused(
        self, key: ObjectKey, message: str, listers: Listers, now: datetime
    ) -> Iterator[Action]:
        """Yield the condition that says the server refuses the pods, unless it is said already."""
        replicaset = listers.get(self.kind, key.name, key.namespace)
        if replicaset is None or _failure(replicaset) is not None:
            return
        condition = {
            "type": FAILURE,
            "status": "True",
            "lastTransitionTime": format_time(now),
            "reason": "FailedCreate",
            "message": message,
        }
        conditions = [*((replicaset.get("status") or {}).get("conditions") or ()), condition]
        yield Patch(
            self.kind, key.name, key.namespace, {"status": {"conditions": conditions}}, subresource="status"
        )

    def _status(
        self,
        key: ObjectKey,
        replicaset: Mapping[str, Any],
        pods: list[Pod],
        terminating: int,
        now: datetime,
    ) -> Iterator[Action]:
        spec, metadata = replicaset["spec"], replicaset["metadata"]
        min_ready = spec.get("minReadySeconds") or 0
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        full = [pod for pod in pods if labels.items() <= (pod.metadata.labels or {}).items()]
        ready = sum(pod.ready for pod in pods)
        available = sum(is_available(pod, min_ready, now) for pod in pods) if min_ready else ready
        status: dict[str, Any] = {
            "replicas": len(pods),
            "fullyLabeledReplicas": len(full),
            "readyReplicas": ready,
            "availableReplicas": available,
            "observedGeneration": metadata.get("generation", 0),
        }
        if self.kind is REPLICA_SETS:
            status["terminatingReplicas"] = terminating
        present = replicaset.get("status") or {}
        recovered = _failure(replicaset) is not None and len(pods) >= spec.get("replicas", 1)
        if recovered or any(present.get(name, 0) != value for name, value in status.items()):
            always = ("replicas", "terminatingReplicas")
            written = {name: value or (0 if name in always else None) for name, value in status.items()}
            if recovered:
                kept = [c for c in present.get("conditions") or () if c["type"] != FAILURE]
                written["conditions"] = kept or None
            yield Patch(self.kind, key.name, key.namespace, {"status": written}, subresource="status")
        waiting = [
            at for pod in pods if min_ready and (at := available_at(pod, min_ready)) is not None and at > now
        ]
        if waiting:
            yield WakeAt(key, min(waiting))


class ReplicationControllers(ReplicaSets):
    """The ReplicationController controller."""

    name = "replication-controller"
    kind = REPLICATION_CONTROLLERS


def deletion_order(pods: list[Pod], now: datetime) -> list[Pod]:
    """Return *pods* in the order in which they are missed least."""
    beside = Counter(pod.spec.node_name for pod in pods if pod.ready)
    return sorted(pods, key=lambda pod: _rank(pod, beside[pod.spec.node_name], now))


def _rank(pod: Pod, beside: int, now: datetime) -> tuple[Any, ...]:
    cost = (pod.metadata.annotations or {}).get(COST, "0")
    ready = pod.status.condition("Ready")
    since = parse_time(ready.last_transition_time) if ready is not None and pod.ready else None
    return (
        bool(pod.spec.node_name),
        {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase, 0),
        pod.ready,
        int(cost) if cost.lstrip("-").isdigit() else 0,
        -beside if pod.spec.node_name else 0,
        _age(since, now),
        -max((each.restart_count for each in pod.status.container_statuses or ()), default=0),
        _age(parse_time(pod.metadata.creation_timestamp), now),
        pod.metadata.uid,
    )


def _age(since: datetime | None, now: datetime) -> int:
    """Return an age in powers of two of seconds: of two pods of about the same age any may go."""
    if since is None:
        return 0
    return int(math.log2(max((now - since).total_seconds(), 1.0)))


def _failure(replicaset: Mapping[str, Any]) -> Mapping[str, Any] | None:
    conditions = (replicaset.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == FAILURE), None)
