"""How many pods of this ReplicaSet are too few or too many, and which go first?

What surprises: pods that are not placed, not running or not ready go before those that are, and of equal ones the
youngest; `controller.kubernetes.io/pod-deletion-cost` comes in between.
Not here: adopting pods that nobody owns; which ReplicaSet should have how many (weir.controllers.deployment).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.controllers.actions import Action, Patch, WakeAt
from weir.controllers.known import PODS, Known
from weir.controllers.views import Pod
from weir.controllers.workload import available_at, is_available, make_pod, owner_key, remove_pod
from weir.gates import Gates
from weir.objects.kinds import Kind, by_kind

REPLICASETS: Final = by_kind("apps/v1", "ReplicaSet")
AT_ONCE: Final = 500
COST: Final = "controller.kubernetes.io/pod-deletion-cost"


@dataclass(frozen=True)
class ReplicaSetKey:
    """One ReplicaSet."""

    namespace: str
    name: str


class ReplicaSets:
    """The ReplicaSet controller."""

    name: Final = "replicaset-controller"
    kinds: Final[tuple[Kind, ...]] = (REPLICASETS, PODS)

    def __init__(self, gates: Gates) -> None:
        pass

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ReplicaSetKey]:
        """Yield the ReplicaSet that changed, or whose pod did."""
        if kind is REPLICASETS:
            metadata = (new or old)["metadata"]
            yield ReplicaSetKey(metadata["namespace"], metadata["name"])
        elif (found := owner_key(new or old, REPLICASETS)) is not None:
            yield ReplicaSetKey(*found)

    def reconcile(self, key: ReplicaSetKey, known: Known, now: datetime) -> Iterator[Action]:
        """Yield what brings the number of pods in line, and the status with them."""
        replicaset = known.get(REPLICASETS, key.name, key.namespace)
        if replicaset is None:
            return
        pods: list[Pod] = [pod for pod in known.owned(PODS, replicaset["metadata"]["uid"]) if pod.active]
        if not replicaset["metadata"].get("deletionTimestamp"):
            wanted = replicaset["spec"].get("replicas", 1)
            for _ in range(min(wanted - len(pods), AT_ONCE)):
                yield make_pod(replicaset, REPLICASETS)
            surplus = len(pods) - wanted
            for pod in sorted(pods, key=leaves_first)[: min(surplus, AT_ONCE)] if surplus > 0 else ():
                yield remove_pod(pod, replicaset, REPLICASETS)
        yield from _status(key, replicaset, pods, now)


def leaves_first(pod: Pod) -> tuple[Any, ...]:
    """Return a sort key: the pods that are missed least come first."""
    cost = (pod.metadata.annotations or {}).get(COST, "0")
    ready = pod.status.condition("Ready")
    return (
        bool(pod.spec.node_name),
        {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase, 0),
        pod.ready,
        int(cost) if cost.lstrip("-").isdigit() else 0,
        _youngest_first(ready.last_transition_time if ready is not None and pod.ready else None),
        _youngest_first(pod.metadata.creation_timestamp),
        pod.metadata.name,
    )


def _youngest_first(time: str | None) -> float:
    return -datetime.fromisoformat(time).timestamp() if time else 0.0


def _status(
    key: ReplicaSetKey, replicaset: Mapping[str, Any], pods: list[Pod], now: datetime
) -> Iterator[Action]:
    spec, metadata = replicaset["spec"], replicaset["metadata"]
    min_ready = spec.get("minReadySeconds") or 0
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    full = [p for p in pods if all((p.metadata.labels or {}).get(k) == v for k, v in labels.items())]
    status = {
        "replicas": len(pods),
        "fullyLabeledReplicas": len(full),
        "readyReplicas": sum(pod.ready for pod in pods),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in pods),
        "observedGeneration": metadata.get("generation", 0),
    }
    present = replicaset.get("status") or {}
    if any(present.get(name, 0) != value for name, value in status.items()):
        written = {name: value or (0 if name == "replicas" else None) for name, value in status.items()}
        yield Patch(REPLICASETS, key.name, key.namespace, {"status": written}, subresource="status")
    waiting = [
        at for pod in pods if min_ready and (at := available_at(pod, min_ready)) is not None and at > now
    ]
    if waiting:
        yield WakeAt(key, min(waiting))
