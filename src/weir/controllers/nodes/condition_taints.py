"""Taints that follow from a node's conditions, and the patches that write node taints and conditions.

Spec: core.md 4.6 "Node lifecycle controller". When a node counts as not reporting is decided in
weir.controllers.nodes.lifecycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.client.events import ObjectReference
from weir.controllers.runtime.controller import Patch, Record
from weir.controllers.runtime.views import Condition, Node
from weir.objects.core import Taint
from weir.objects.kind import Kind
from weir.objects.kinds import NODES
from weir.objects.times import format_time
from weir.taints.wellknown import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)

EVICTING_KEYS: Final = frozenset({NOT_READY, UNREACHABLE})
#: (condition, status) → the key of the taint it stands for
CONDITION_TAINTS: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): MEMORY_PRESSURE,
    ("DiskPressure", "True"): DISK_PRESSURE,
    ("PIDPressure", "True"): PID_PRESSURE,
    ("NetworkUnavailable", "True"): NETWORK_UNAVAILABLE,
}
OWNED: Final = frozenset({*CONDITION_TAINTS.values(), UNSCHEDULABLE})
REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def ready_status(node: Node) -> str:
    """Return what the node's Ready condition says, nothing when it has none."""
    ready = node.status.condition("Ready")
    return ready.status if ready is not None else ""


def wanted_keys(node: Node) -> Iterator[str]:
    """Yield the keys of the NoSchedule taints that the node's conditions stand for."""
    for condition in node.status.conditions or ():
        key = CONDITION_TAINTS.get((condition.type, condition.status))
        if key is not None:
            yield key
    if node.spec.unschedulable:
        yield UNSCHEDULABLE


def unknown_conditions(node: Node, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield Unknown conditions for a node that stopped heartbeating, where not set yet, in the node's order."""
    own = [each.type for each in node.status.conditions or ()]
    for type in sorted(REPORTED, key=lambda each: own.index(each) if each in own else len(own)):
        present: Condition | None = node.status.condition(type)
        if present is None:
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
            heartbeat = node.metadata.creation_timestamp
        elif present.status != "Unknown":
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            heartbeat = present.last_heartbeat_time
        else:
            continue
        yield {
            "type": type,
            "status": "Unknown",
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": heartbeat,
            "lastTransitionTime": format_time(now),
        }


def evicting(key: str, now: datetime) -> Taint:
    """Return the NoExecute taint called *key*, added now."""
    return Taint(key, "", "NoExecute", format_time(now))


def without(node: Node, *keys: str) -> list[Taint]:
    """Return the node's taints without the NoExecute ones called *keys*."""
    return [taint for taint in node.taints if taint.effect != "NoExecute" or taint.key not in keys]


def set_taints(node: Node, taints: list[Taint]) -> Patch:
    """Return the change that gives the node these taints, if it was not changed meanwhile."""
    documents = [
        {
            name: value
            for name, value in (
                ("key", taint.key),
                ("value", taint.value),
                ("effect", taint.effect),
                ("timeAdded", taint.time_added),
            )
            if value
        }
        for taint in taints
    ]
    version = node.metadata.resource_version
    return Patch(
        NODES,
        node.name,
        "",
        {"metadata": {"resourceVersion": version}, "spec": {"taints": documents or None}},
    )


def node_event(name: str, uid: str, reason: str, message: str) -> Record:
    """Return the event for a node that was added or removed."""
    return Record(ObjectReference("Node", name, "", uid), "Normal", reason, f"Node {name} event: {message}")


def status_patch(kind: Kind, name: str, namespace: str, conditions: list[dict[str, Any]]) -> Patch:
    """Return the change of an object's conditions, each by its type."""
    patch = {"status": {"conditions": conditions}}
    return Patch(kind, name, namespace, patch, STRATEGIC_MERGE_PATCH, "status")
