"""Free capacity of the nodes that can take more pods, in cores, bytes and pods.

A tainted node counts when a pod of the cluster tolerates its taints. Pods of DaemonSets do not count for this: they
tolerate the taints of nodes that take no other pod, and use no room but that of their own node.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from weir.gates import Gates
from weir.objects.core import Pod, Taint
from weir.scheduler.node_table import (
    ALLOC_CPU,
    ALLOC_MEMORY,
    ALLOC_PODS,
    USED_CPU,
    USED_MEMORY,
    USED_PODS,
    NodeTable,
)
from weir.taints.toleration import untolerated


def room(table: NodeTable, gates: Gates, waiting: Iterable[Pod] = ()) -> dict[str, float]:
    """Return what the nodes of the scheduler's *table* have left for its pods and those *waiting* for a node."""
    classes = {pod_class for row in table.row_of.values() for pod_class in table.pods[row].values()}
    toleration_lists = {
        pod.tolerations
        for pod in (*(pod_class.pod for pod_class in classes), *waiting)
        if not any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references or ())
    } | {()}

    @cache
    def is_tolerated(taint: Taint) -> bool:
        return any(not untolerated((taint,), tolerations, gates) for tolerations in toleration_lists)

    @cache
    def takes_pods(taints: tuple[Taint, ...]) -> bool:
        # A taint that no pod tolerates, as one that is about to drain a pool, decides for all lists that have it.
        return all(map(is_tolerated, taints)) and any(
            not untolerated(taints, tolerations, gates) for tolerations in toleration_lists
        )

    free_cpu = free_memory = free_pods = 0
    for row in table.row_of.values():
        if table.unschedulable[row] or not takes_pods(table.taint_lists[table.taint_list[row]]):
            continue
        state = table.state[:, row]
        free_cpu += max(int(state[ALLOC_CPU] - state[USED_CPU]), 0)
        free_memory += max(int(state[ALLOC_MEMORY] - state[USED_MEMORY]), 0)
        free_pods += max(int(state[ALLOC_PODS] - state[USED_PODS]), 0)
    return {"cpu": free_cpu / 1000, "memory": free_memory, "pods": free_pods}
