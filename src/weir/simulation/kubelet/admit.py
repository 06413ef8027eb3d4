"""Kubelet admission of a pod to its node.

Spec: core.md 6 "Kubelet admission". Only NoExecute taints count, and a running pod is not checked again. With a gate
off, a pod that the scheduler placed correctly is rejected; it stays Failed, and its controller creates another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weir.gates import Gates
from weir.objects.core import Container, Node, Pod, Taint
from weir.objects.declared_features import declared_features, required_features
from weir.objects.requests import PODS, Amounts, node_allocatable, pod_requests
from weir.selectors.node import pod_selects_node
from weir.taints import wellknown
from weir.taints.toleration import EVICTING, Evaluate, find_tolerating, untolerated
from weir.validate.core.resources import is_extended
from weir.values.quoting import quote

OS: Final = "kubernetes.io/os"
#: Those that a kubelet lets pods set unless its administrator says otherwise.
SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
        "net.ipv4.tcp_slow_start_after_idle",
        "net.ipv4.tcp_notsent_lowat",
    }
)
STATIC: Final = "kubernetes.io/config.source"
MIRROR: Final = "kubernetes.io/config.mirror"
CRITICAL_PRIORITY: Final = 2_000_000_000
MEMORY_PRESSURE: Final = Taint(wellknown.MEMORY_PRESSURE, "", "NoSchedule")
#: Before the name of a DeviceClass: a resource that the devices of the class offer.
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")
#: Resources are looked at in this order; others follow by name.
_FIRST: Final = (PODS, "cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer: empty reason = the pod may run, after *victims* have made room."""

    reason: str = ""
    message: str = ""
    victims: tuple[Pod, ...] = field(default=())

    def __bool__(self) -> bool:
        return not self.reason

    @property
    def status_message(self) -> str:
        """What the pod's status says."""
        return f"Pod was rejected: {self.message}"


ADMITTED: Final = Admission()


def is_static(pod: Pod) -> bool:
    """Return whether the pod comes from the node itself, not from the API."""
    source = (pod.metadata.annotations or {}).get(STATIC)
    return source is not None and source != "api"


def is_mirror(pod: Pod) -> bool:
    """Return whether the pod only shows a static pod in the API."""
    return MIRROR in (pod.metadata.annotations or {})


def is_critical(pod: Pod) -> bool:
    """Return whether the pod may push others off the node."""
    return is_static(pod) or is_mirror(pod) or (pod.spec.priority or 0) >= CRITICAL_PRIORITY


def is_best_effort(pod: Pod) -> bool:
    """Return whether no container has a cpu or memory request or limit."""
    containers: Iterable[Container] = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    return not any(
        resource in amounts
        for container in containers
        if container.resources is not None
        for amounts in (container.resources.requests or {}, container.resources.limits or {})
        for resource in ("cpu", "memory")
    )


def needs_admission(pod: Pod) -> bool:
    """Return whether a pod first seen on its node goes through admission."""
    return not is_mirror(pod) and not pod.terminated and pod.metadata.deletion_timestamp is None


def admit_system(pod: Mapping[str, Any], node: Mapping[str, Any]) -> Admission:
    """Return whether the operating system of a node is one that the pod can run on; both are documents.

    >>> node = {"metadata": {"labels": {"kubernetes.io/os": "linux"}}}
    >>> admit_system({"spec": {"os": {"name": "windows"}}}, node).reason
    'PodOSNotSupported'
    """
    system = (node["metadata"].get("labels") or {}).get(OS)
    wanted = (pod["spec"].get("nodeSelector") or {}).get(OS)
    if wanted is not None and system is not None and wanted != system:
        text = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return Admission("PodOSSelectorNodeLabelDoesNotMatch", text)
    named = (pod["spec"].get("os") or {}).get("name")
    running = ((node.get("status") or {}).get("nodeInfo") or {}).get("operatingSystem") or system or "linux"
    if named and named != running:
        return Admission("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    for each in (pod["spec"].get("securityContext") or {}).get("sysctls") or ():
        name = each["name"].replace("/", ".")
        if name not in SAFE_SYSCTLS:
            return Admission("SysctlForbidden", f"forbidden sysctl: {quote(name)} not allowlisted")
        space, field = ("Net", "hostNetwork") if name.startswith("net.") else ("IPC", "hostIPC")
        if pod["spec"].get(field):
            text = f"{quote(name)} not allowed with host {space} enabled"
            return Admission("SysctlForbidden", f"forbidden sysctl: {text}")
    return ADMITTED


def admit(
    pod: Pod, node: Node, others: Sequence[Pod], gates: Gates, evaluate: Evaluate | None = None
) -> Admission:
    """Return whether *pod* may run on *node* beside *others*; only the first problem is returned.

    >>> from weir.gates import ALL_FEATURES
    >>> from weir.objects.core import read
    >>> bad = read(Node, {"spec": {"taints": [{"key": "sla", "effect": "NoExecute"}]}})
    >>> admit(Pod(), bad, [], ALL_FEATURES).reason
    'TaintToleration'
    """
    refused = _pressure(pod, node, gates, evaluate)
    if not refused:
        return refused
    short = _shortage(pod, node, others)
    victims: tuple[Pod, ...] = ()
    if short is not None:
        room = _make_room(pod, node, others) if is_critical(pod) else None
        if room is None:
            return short
        victims = room
    for predicate, fine, why in (
        ("NodeAffinity", pod_selects_node(pod, node.labels, node.name, gates), _AFFINITY),
        ("NodeName", not pod.spec.node_name or pod.spec.node_name == node.name, _NAME),
        ("NodePorts", not _ports_taken(pod, others), _PORTS),
    ):
        if not fine:
            return Admission(predicate, f"Predicate {predicate} failed: {why}")
    if not is_static(pod) and untolerated(node.taints, pod.tolerations, gates, EVICTING, evaluate):
        return Admission("TaintToleration", f"Predicate TaintToleration failed: {_TAINTS}")
    supported = _supported(pod, node)
    return Admission(victims=victims) if supported and victims else supported


_AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
_NAME: Final = "node(s) didn't match the requested node name"
_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
_FEATURES: Final = "Pod requires node features that are not available"
_TAINTS: Final = "node(s) had taints that the pod didn't tolerate"


def admit_scheduled(pod: Pod, node: Node, gates: Gates, evaluate: Evaluate | None = None) -> Admission:
    """Return whether a pod may run on the node where the scheduler's default filters have just placed it.

    Room, affinity, ports and taints were theirs to judge, of this very node; pressure and features are not.
    """
    return _supported(pod, node) if (refused := _pressure(pod, node, gates, evaluate)) else refused


def _supported(pod: Pod, node: Node) -> Admission:
    missing = sorted(required_features(pod) - declared_features(node))
    return Admission("PodFeatureUnsupported", f"{_FEATURES}: {', '.join(missing)}") if missing else ADMITTED


def _pressure(pod: Pod, node: Node, gates: Gates, evaluate: Evaluate | None) -> Admission:
    found = [c.type for c in node.status.conditions or () if c.type in PRESSURES and c.status == "True"]
    if not found or is_critical(pod):
        return ADMITTED
    if found == ["MemoryPressure"]:
        if not is_best_effort(pod):
            return ADMITTED
        if find_tolerating(pod.tolerations, MEMORY_PRESSURE, gates, evaluate) is not None:
            return ADMITTED
    return Admission("Evicted", f"The node had condition: [{' '.join(found)}]. ")


def _shortage(pod: Pod, node: Node, others: Sequence[Pod]) -> Admission | None:
    """Return the first resource the node has too little of, if there is one."""
    room = node_allocatable(node)
    if not room:
        return None  # a node without amounts has not been measured yet
    used: Amounts = {}
    for other in others:
        for resource, amount in pod_requests(other).items():
            used[resource] = used.get(resource, 0) + amount
    if len(others) + 1 > room.get(PODS, 0):
        return _out_of(PODS, 1, len(others), room.get(PODS, 0))
    wanted = pod_requests(pod)
    for resource in sorted(wanted, key=lambda r: (_FIRST.index(r) if r in _FIRST else len(_FIRST), r)):
        if resource not in room and (is_extended(resource) or _from_devices(pod, resource)):
            continue  # not the node's to give: devices, or something of the whole cluster
        amount, taken, capacity = wanted[resource], used.get(resource, 0), room.get(resource, 0)
        if amount and amount > capacity - taken:
            return _out_of(resource, amount, taken, capacity)
    return None


def _from_devices(pod: Pod, resource: str) -> bool:
    """Return whether *resource* stands for a device class and the scheduler made a claim for it."""
    return resource.startswith(DEVICE_CLASS) and pod.status.extended_resource_claim_status is not None


def _out_of(resource: str, requested: int, used: int, capacity: int) -> Admission:
    asked = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return Admission(f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {asked}")


def _make_room(pod: Pod, node: Node, others: Sequence[Pod]) -> tuple[Pod, ...] | None:
    """Return the lowest-priority pods whose eviction admits a critical pod; None if that is impossible."""
    mine = pod.spec.priority or 0
    weakest_first = sorted(
        (other for other in others if not is_critical(other) or (other.spec.priority or 0) < mine),
        key=lambda other: (other.spec.priority or 0, not is_best_effort(other), other.key),
    )
    victims: list[Pod] = []
    for candidate in weakest_first:
        victims.append(candidate)
        left = [other for other in others if all(other is not victim for victim in victims)]
        if _shortage(pod, node, left) is None:
            return tuple(victims)
    return None


def _ports(pod: Pod) -> set[tuple[str, int, str]]:
    return {
        (port.protocol or "TCP", port.host_port, port.host_ip)
        for container in pod.spec.containers
        for port in container.ports or ()
        if port.host_port
    }


def _ports_taken(pod: Pod, others: Sequence[Pod]) -> bool:
    wanted = _ports(pod)
    if not wanted:
        return False
    anywhere = ("", "0.0.0.0")
    return any(
        (protocol, number) == (taken_protocol, taken_number)
        and (address == taken_address or address in anywhere or taken_address in anywhere)
        for other in others
        for taken_protocol, taken_number, taken_address in _ports(other)
        for protocol, number, address in wanted
    )
