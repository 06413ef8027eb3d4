"""Expected and desired healthy pod counts of a PodDisruptionBudget.

An absolute minAvailable counts the existing pods. Percentages and maxUnavailable count against the scale of the pods'
controllers: ReplicaSets (their Deployment's scale), StatefulSets, ReplicationControllers. Pods without a controller
are not counted, and a pod whose controller has no scale (a DaemonSet, a Job) makes the count fail: nothing may be
disrupted then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.pod_control import scaled
from weir.controllers.workloads.replicaset import REPLICASETS, REPLICATION_CONTROLLERS
from weir.controllers.workloads.rollout import DEPLOYMENTS
from weir.controllers.workloads.statefulset import STATEFULSETS
from weir.objects.core import OwnerReference
from weir.objects.kind import Kind
from weir.objects.kinds import find_kind

SIZED: Final = {kind.kind: kind for kind in (REPLICATION_CONTROLLERS, REPLICASETS, STATEFULSETS)}

Document = Mapping[str, Any]


class NoScale(ValueError):
    """A pod whose controller has no scale."""


@dataclass(frozen=True)
class Expectation:
    """What a budget expects."""

    pods: int
    healthy: int
    unmanaged: bool = False  #: whether some pods have no owner where one is needed


def expectation(spec: Document, pods: Sequence[Pod], listers: Listers) -> Expectation:
    """Return what a budget's spec expects of *pods*; raises NoScale."""
    at_least = spec.get("minAvailable")
    if isinstance(at_least, int):
        return Expectation(len(pods), at_least)
    if at_least is None and spec.get("maxUnavailable") is None:
        return Expectation(0, 0)
    total = _scale(pods, listers)
    unmanaged = any(_owner(pod) is None for pod in pods)
    if at_least is not None:
        return Expectation(total, scaled(at_least, total, up=True), unmanaged)
    return Expectation(total, max(0, total - scaled(spec["maxUnavailable"], total, up=True)), unmanaged)


def _owner(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references or () if owner.controller), None)


def _scale(pods: Sequence[Pod], listers: Listers) -> int:
    """Return the total scale of the controllers of *pods*."""
    sizes: dict[str, int] = {}
    for pod in pods:
        owner = _owner(pod)
        if owner is not None and owner.uid not in sizes:
            uid, size = _size(owner, pod, listers)
            sizes[uid] = size
    return sum(sizes.values())


def _size(owner: OwnerReference, pod: Pod, listers: Listers) -> tuple[str, int]:
    kind = SIZED.get(owner.kind)
    if kind is None:
        raise NoScale(_without_scale(owner))
    found = _find(kind, owner.name, owner.uid, pod.metadata.namespace, listers)
    if found is not None and kind is REPLICASETS:
        above = next((o for o in found["metadata"].get("ownerReferences") or () if o.get("controller")), None)
        if above is not None and above["kind"] == DEPLOYMENTS.kind:
            found = _find(DEPLOYMENTS, above["name"], above["uid"], pod.metadata.namespace, listers)
    if found is None:
        raise NoScale(f'found no controllers for pod "{pod.metadata.name}"')
    return found["metadata"]["uid"], found["spec"].get("replicas", 1)


def _find(kind: Kind, name: str, uid: str, namespace: str, listers: Listers) -> Document | None:
    found: Document | None = listers.get(kind, name, namespace) if listers.serves(kind) else None
    return found if found is not None and found["metadata"]["uid"] == uid else None


def _without_scale(owner: OwnerReference) -> str:
    kind = find_kind(owner.api_version, owner.kind)
    if kind is None:
        return f'no matches for kind "{owner.kind}" in version "{owner.api_version}"'
    name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    return f"{name} does not implement the scale subresource"
