"""Reuse of matrix results between versions of the cluster.

A pod that depends only on a node and its pods (no affinity, volumes, claims or nominated pods) keeps its result in a
group in which nothing changed. Only the other groups are evaluated, in a world of their nodes. Anything else that
could matter must be equal, or everything is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from weir.explain.fix import Edits
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.pod_reader import relevant_volumes
from weir.objects.requests import host_ports, pod_requests
from weir.ui.node_groups import NodeGroup
from weir.world import World

#: Rows that are kept; each holds a verdict for every group.
MOST_ROWS: Final = 4000
#: Beyond so many nodes to judge again, judging all of them costs no more.
_MOST_AGAIN: Final = 1000
#: Documents that no verdict reads of which rows are kept.
_UNREAD: Final = frozenset(
    {"Event", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicationController", "Service",
     "PodDisruptionBudget", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"}
)  # fmt: skip
_DEVICES: Final = ("resource_claims", "device_classes", "resource_slices", "device_taint_rules")


@dataclass(slots=True)
class GroupVerdict:
    """The verdict of a group's first node about a pod."""

    node: str
    fits: bool
    words: str  #: what it says, whichever way
    text: str  #: why not; "" where it fits
    kind: str  #: of the reason that decides
    plan: tuple[float, Edits] | None = None  #: the small edit that may help, with its cost
    helps: bool | None = None  #: whether that is proven; None: not tried


@dataclass(frozen=True, slots=True)
class CachedRow:
    """One row: how many nodes of each group accept the pod, and the group's verdict."""

    taken: Sequence[int]
    said: Sequence[GroupVerdict]


@dataclass
class MatrixCache:
    """The rows of one matrix, with the world they are valid for."""

    world: World
    gates: Gates
    groups: Sequence[NodeGroup]
    rows: dict[Any, CachedRow] = field(default_factory=dict)

    def keep(self, key: Any, kept: CachedRow) -> None:
        """Keep a row for the next matrix."""
        while len(self.rows) >= MOST_ROWS:
            del self.rows[next(iter(self.rows))]
        self.rows[key] = kept

    def after(self, world: World, gates: Gates, groups: Sequence[NodeGroup]) -> Reuse | None:
        """Return what still holds in *world*, or None when nothing does."""
        if not self.rows or gates != self.gates or _others(world) != _others(self.world):
            return None
        before = {group.nodes: number for number, group in enumerate(self.groups)}
        same: list[int] = []
        again: list[str] = []
        for group in groups:
            number = before.get(group.nodes, -1)
            if number >= 0 and not all(map(self._unchanged, group.nodes, [world] * len(group.nodes))):
                number = -1
            same.append(number)
            again += group.nodes if number < 0 else ()
        if len(again) > _MOST_AGAIN:
            return None
        there = {name: world.nodes[name] for name in again}
        pods = {pod.key: pod for name in again for pod in world.pods_on(name)}
        return Reuse(self.rows, same, replace(world, nodes=there, pods=pods))

    def _unchanged(self, name: str, world: World) -> bool:
        return self.world.nodes.get(name) == world.nodes[name] and self.world.pods_on(name) == world.pods_on(
            name
        )


@dataclass(frozen=True)
class Reuse:
    """The rows of before, and what is to be judged again of them."""

    rows: dict[Any, CachedRow]
    same: Sequence[int]  #: for each group, which of before it is; -1: none
    world: World  #: the nodes of those that are none


def rememberable(world: World) -> bool:
    """Return whether rows of a world can be kept: room that was promised is not a matter of one node."""
    return not any(pod.status.nominated_node_name and not pod.spec.node_name for pod in world.pods.values())


def judged_by_node_alone(pod: Pod, world: World) -> bool:
    """Return whether a node and the pods there decide whether it takes *pod*, and nothing else."""
    spec, affinity = pod.spec, pod.spec.affinity
    if spec.node_name or spec.topology_spread_constraints or spec.resource_claims or relevant_volumes(pod):
        return False
    if any(True for _ in host_ports(pod)):
        return False  # a port that would help is one that no pod anywhere has
    if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
        return False
    namespace = pod.metadata.namespace or "default"
    if any(key.startswith(f"{namespace}/") for key in world.documents.get("ResourceQuota", ())):
        return False  # what a change would use up decides whether it helps
    return not (world.device_classes and any("/" in name for name in pod_requests(pod, set_aside=True)))


def _others(world: World) -> tuple[Any, ...]:
    read = {kind: held for kind, held in world.documents.items() if kind not in _UNREAD}
    return (read, world.listed, world.namespaces, *(getattr(world, name) for name in _DEVICES))
