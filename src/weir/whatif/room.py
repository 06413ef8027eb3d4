"""How much room is left? Of the nodes that take pods, in cores, bytes and pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.scheduler.node_table import (
    ALLOC_CPU,
    ALLOC_MEMORY,
    ALLOC_PODS,
    USED_CPU,
    USED_MEMORY,
    USED_PODS,
    NodeTable,
)

Document = dict[str, Any]


def room(table: NodeTable, nodes: Mapping[str, Document]) -> dict[str, float]:
    """Return what those of *nodes* that take pods have left in the scheduler's *table*."""
    cpu = memory = pods = 0
    for name, row in table.row_of.items():
        spec = (nodes.get(name) or {}).get("spec") or {}
        closed = any(taint.get("effect") in ("NoSchedule", "NoExecute") for taint in spec.get("taints") or ())
        if closed or spec.get("unschedulable"):
            continue
        state = table.state[:, row]
        cpu += max(int(state[ALLOC_CPU] - state[USED_CPU]), 0)
        memory += max(int(state[ALLOC_MEMORY] - state[USED_MEMORY]), 0)
        pods += max(int(state[ALLOC_PODS] - state[USED_PODS]), 0)
    return {"cpu": cpu / 1000, "memory": memory, "pods": pods}
