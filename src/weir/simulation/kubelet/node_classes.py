"""Node classes: capacity, labels, taints, devices and pod behaviour, as data.

From a YAML file (`weir node add --class spot.yaml`) or built in. A simulated node has the label
`weir.dev/simulated=true`; pod behaviour and devices are in annotations, so that nodes survive the simulating process.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final
from zlib import crc32

import msgspec

from weir.objects.core import Taint
from weir.simulation.drivers.device_models import DEVICES, Devices, DevicesError, read_all
from weir.simulation.drivers.publisher import check_publishable
from weir.simulation.kubelet.behaviour import Life, LifeError

Document = dict[str, Any]
SIMULATED: Final = "weir.dev/simulated"
CLASS: Final = "weir.dev/class"
LIFE: Final = "weir.dev/life"
FAILED: Final = "weir.dev/failed"  #: annotation: the node is off until it is taken away


class ClassError(ValueError):
    """A node class that cannot be used, with what is wrong."""


@dataclass(frozen=True)
class NodeClass:
    """One kind of node."""

    name: str = "default"
    capacity: dict[str, str] = field(
        default_factory=lambda: {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    )
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    life: Document = field(default_factory=dict)
    devices: tuple[Devices, ...] = ()

    def with_devices(self, count: int) -> NodeClass:
        """Return the class with *count* devices a node: as many of its own kind, or GPUs when it has none.

        >>> [each.count for each in NodeClass().with_devices(4).devices]
        [4]
        """
        first, *others = self.devices or (Devices(),)
        changed = replace(first, count=count)
        try:
            changed.check()
        except DevicesError as error:
            raise ClassError(f"{self.name}: devices: {error}") from None
        return replace(self, devices=(changed, *others))

    @classmethod
    def read(cls, document: object, name: str) -> NodeClass:
        """Return the class that a document describes; raises ClassError."""
        if not isinstance(document, dict):
            raise ClassError(
                f"{name}: a node class is a mapping with capacity, labels, taints, life, devices"
            )
        unknown = set(document) - {"name", "capacity", "labels", "taints", "life", "devices"}
        if unknown:
            raise ClassError(f"{name}: unknown field {min(map(str, unknown))!r}")
        try:
            Life.read(document.get("life") or {})
            found = msgspec.convert({"name": name, **document}, _Class, strict=False)
        except (LifeError, msgspec.ValidationError) as error:
            raise ClassError(f"{name}: {error}") from None
        try:
            devices = read_all(document["devices"]) if document.get("devices") else ()
            for each in devices:
                check_publishable(each)
        except DevicesError as error:
            raise ClassError(f"{name}: devices: {error}") from None
        return cls(
            found.name,
            {**cls().capacity, **found.capacity},
            found.labels,
            found.taints,
            dict(document.get("life") or {}),
            devices,
        )


class _Class(msgspec.Struct):
    name: str
    capacity: dict[str, str] = {}
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    life: Document = {}
    devices: Any = None


CLASSES: Final = {
    each.name: each
    for each in (
        NodeClass(),
        NodeClass("on-demand", labels={"node.weir.dev/capacity-type": "on-demand"}),
        NodeClass("spot", labels={"node.weir.dev/capacity-type": "spot"}),
        NodeClass(
            "large",
            {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "250"},
        ),
        NodeClass("gpu", devices=(Devices(),)),
    )
}


def node_document(
    name: str, kind: NodeClass, taints: tuple[Taint, ...], labels: dict[str, str], now: str
) -> Document:
    """Return the Node object of a simulated node."""
    all_labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        SIMULATED: "true",
        CLASS: kind.name,
        **kind.labels,
        **labels,
    }
    annotations = {LIFE: msgspec.json.encode(kind.life).decode()} if kind.life else {}
    if kind.devices:
        annotations[DEVICES] = msgspec.json.encode([each.document() for each in kind.devices]).decode()
    document: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": all_labels},
        "spec": {"taints": msgspec.to_builtins([*kind.taints, *taints])},
        "status": node_status(name, kind.capacity, now),
    }
    if annotations:
        document["metadata"]["annotations"] = annotations
    return document


def is_off(node: Document) -> bool:
    """Return whether the node plays dead."""
    return FAILED in (node["metadata"].get("annotations") or {})


def node_status(name: str, capacity: dict[str, str], now: str) -> Document:
    """Return the status of a healthy node."""
    return {
        "addresses": addresses(name),
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": healthy(now, now),
        "declaredFeatures": ["RestartAllContainersOnContainerExits"],
        "nodeInfo": {
            "kubeletVersion": "v1.37.0-weir",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
            "kernelVersion": "6.12.0",
            "osImage": "weir",
            "containerRuntimeVersion": "weir://1",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


def addresses(name: str) -> list[Document]:
    """Return the addresses of a simulated node: one of its own, and its name.

    >>> addresses("node-0")
    [{'type': 'InternalIP', 'address': '172.21.44.201'}, {'type': 'Hostname', 'address': 'node-0'}]
    """
    number = crc32(name.encode())
    return [
        {
            "type": "InternalIP",
            "address": f"172.{16 + (number >> 16 & 15)}.{number >> 8 & 255}.{number & 255}",
        },
        {"type": "Hostname", "address": name},
    ]


def allocatable_of(status: Document) -> Document:
    """Return what a kubelet without reservations gives to pods, from the capacity it has.

    Extended resources that other programs put into the capacity are followed, and taken back with it.

    >>> allocatable_of({"capacity": {"cpu": "8", "example.com/a": "3"}, "allocatable": {"cpu": "6"}})
    {'cpu': '6', 'example.com/a': '3'}
    """
    capacity, given = status.get("capacity") or {}, status.get("allocatable") or {}
    return {
        name: amount if "/" in name else given.get(name, amount) for name, amount in capacity.items()
    } or given


_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def healthy(heartbeat: str, since: str) -> list[Document]:
    """Return the conditions of a node that is well."""
    return [
        {
            "type": type,
            "status": status,
            "lastHeartbeatTime": heartbeat,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
        for type, status, reason, message in _CONDITIONS
    ]
