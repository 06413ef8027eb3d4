"""Pod and Node views for controllers: the core views plus creation, heartbeat and condition times.

The scheduler's views omit these times, since a heartbeat is no change of a node to it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from weir.objects import core
from weir.objects.core import ENDED, View


class Condition(View, frozen=True):
    """One condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class OwnerReference(core.OwnerReference, frozen=True):
    block_owner_deletion: bool | None = None


class ObjectMeta(core.ObjectMeta, frozen=True):
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class ContainerPort(core.ContainerPort, frozen=True):
    name: str = ""


class Container(core.Container, frozen=True):
    ports: tuple[ContainerPort, ...] | None = None


class PodSpec(core.PodSpec, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    hostname: str = ""
    subdomain: str = ""
    restart_policy: str = "Always"


class PodIp(View, frozen=True):
    ip: str = ""


class ContainerStatus(core.ContainerStatus, frozen=True):
    """How one container fares; `state` has running, waiting or terminated."""

    state: dict[str, Any] | None = None
    restart_count: int = 0

    @property
    def terminated(self) -> dict[str, Any] | None:
        """Return how the container ended (exitCode, finishedAt …), if it did."""
        found: dict[str, Any] | None = (self.state or {}).get("terminated")
        return found


class PodStatus(core.PodStatus, frozen=True):
    conditions: tuple[Condition, ...] | None = None  # type: ignore[assignment]
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIp, ...] | None = msgspec.field(default=None, name="podIPs")
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None

    def condition(self, type: str) -> Condition | None:
        """Return the condition of this type, if there is one."""
        for found in self.conditions or ():
            if found.type == type:
                return found
        return None


class Pod(core.Pod, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        for condition in self.status.conditions or ():
            if condition.type == "Ready":
                return condition.status == "True"
        return False

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def active(self) -> bool:
        """Whether the pod still counts for its owner: neither ended nor being deleted."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in ENDED

    @property
    def controller_uid(self) -> str:
        """Return the uid of the object that controls the pod, or nothing."""
        for owner in self.metadata.owner_references or ():
            if owner.controller:
                return owner.uid
        return ""


class NodeStatus(core.NodeStatus, frozen=True):
    conditions: tuple[Condition, ...] | None = None  # type: ignore[assignment]

    def condition(self, type: str) -> Condition | None:
        """Return the condition of this type, if there is one."""
        for found in self.conditions or ():
            if found.type == type:
                return found
        return None


class Node(core.Node, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: NodeStatus = NodeStatus()


def parse_time(text: str | None) -> datetime | None:
    """Return a time of the API, whole seconds or micro.

    >>> parse_time("2026-01-02T03:04:05Z").minute, parse_time("2026-01-02T03:04:05.250000Z").microsecond
    (4, 250000)
    """
    return datetime.fromisoformat(text) if text else None
