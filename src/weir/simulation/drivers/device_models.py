"""Device models of simulated drivers: GPUs and network cards, as data.

Spec: dra.md 11 "Simulated driver", modelled on the public example driver for GPUs.
A node class names its devices (`devices: {count: 8}`, or a list of several drivers); a node keeps them in an
annotation, so that they survive the simulating process. A named pool (`pool: fabric`) is published once for all nodes
that name it; other pools are named after their node and local to it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from weir.simulation.drivers.faults import POOL, Fault, FaultError, read_fault
from weir.values.quantity import Quantity, QuantityError, parse_quantity

Document = dict[str, Any]
DEVICES: Final = "weir.dev/devices"  #: annotation: what a node's drivers publish
GPU_DRIVER: Final = "gpu.example.com"
NETWORK_DRIVER: Final = "net.example.com"
MOST_DEVICES: Final = 1024
FORMS: Final = ("inline", "separate")
_SCHEDULE: Final = "schedule"
_NAMESPACE: Final = uuid.UUID("c9a3f0de-52ac-4f0b-9d55-0a1f6f0d5055")
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


class DevicesError(ValueError):
    """Devices that cannot be simulated, with what is wrong."""


@dataclass(frozen=True)
class Devices:
    """What one driver offers on a node, or on all nodes that share a pool."""

    profile: str = "gpu"  #: where everything else starts from
    driver: str = GPU_DRIVER
    name: str = "gpu"  #: devices are called NAME-0, NAME-1, …
    count: int = 8
    pool: str = ""  #: "": one pool a node, called like the node
    node_labels: Mapping[str, str] = field(
        default_factory=dict
    )  #: which nodes reach a shared pool; none: all
    attributes: Mapping[str, Document] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=lambda: {"memory": "80Gi", "compute": "100"})
    partitions: int = 0  #: into how many parts each device can be divided
    shared: bool = False  #: whether several claims may share a device's capacity
    taint_form: str = "inline"  #: or "separate": the taints in a slice of their own
    extended_resource: str = ""  #: what pods may ask for instead of a claim
    schedule: tuple[Document, ...] = ()

    @classmethod
    def read(cls, document: object) -> Devices:
        """Return what a document describes; raises DevicesError.

        >>> Devices.read({"count": 2, "attributes": {"model": "A100"}}).attributes["model"]
        {'string': 'A100'}
        """
        if not isinstance(document, dict):
            raise DevicesError(f"{document!r} is no description of devices: write {{count: 8}} or more")
        try:
            found = msgspec.convert(document, _Written, strict=True)
        except msgspec.ValidationError as error:
            raise DevicesError(" ".join(str(error).split())) from None
        if found.profile not in PROFILES:
            raise DevicesError(f"profile {found.profile!r}: there are {', '.join(PROFILES)}")
        start = PROFILES[found.profile]
        made = replace(
            start,
            driver=found.driver or start.driver,
            name=found.name or start.name,
            count=start.count if found.count is None else found.count,
            pool=found.pool or start.pool,
            node_labels=found.node_labels,
            attributes={name: _attribute(name, value) for name, value in found.attributes.items()},
            capacity={**start.capacity, **{n: _amount(n, v) for n, v in found.capacity.items()}},
            partitions=found.partitions,
            shared=found.shared,
            taint_form=found.taints,
            extended_resource=found.extended_resource_name,
            schedule=tuple(found.schedule),
        )
        made.check()
        return made

    def check(self) -> None:
        """Raise DevicesError unless these devices can be published."""
        if not 0 <= self.count <= MOST_DEVICES:
            raise DevicesError(f"count: {self.count} is not between 0 and {MOST_DEVICES}")
        if not 0 <= self.partitions <= 16:
            raise DevicesError(f"partitions: {self.partitions} is not between 0 and 16")
        if self.partitions and self.shared:
            raise DevicesError("partitions and shared exclude each other")
        if self.node_labels and not self.pool:
            raise DevicesError("nodeLabels: only a pool with a name of its own is shared by nodes")
        if self.taint_form not in FORMS:
            raise DevicesError(f"taints: {self.taint_form!r}: write {' or '.join(FORMS)}")
        known = {device["name"] for device in self.devices("node")} | {POOL}
        for entry in self.schedule:
            try:
                fault = read_fault(entry, _EPOCH)
            except FaultError as error:
                raise DevicesError(f"schedule: {error}") from None
            if fault.device not in known:
                raise DevicesError(f"schedule: there is no device {fault.device}")

    def document(self) -> Document:
        """Return the description again, as a class file has it."""
        written: Document = {
            "profile": self.profile,
            "driver": self.driver,
            "name": self.name,
            "count": self.count,
            "pool": self.pool,
            "nodeLabels": dict(self.node_labels),
            "attributes": dict(self.attributes),
            "capacity": dict(self.capacity),
            "partitions": self.partitions,
            "shared": self.shared,
            "taints": self.taint_form,
            "extendedResourceName": self.extended_resource,
            _SCHEDULE: list(self.schedule),
        }
        return {name: value for name, value in written.items() if value or name == "count"}

    def faults(self, start: datetime) -> list[Fault]:
        """Return what the schedule says, for a node that is there since *start*."""
        return [read_fault(entry, start) for entry in self.schedule]

    # ── what is published ────────────────────────────────────────────────────────────────────────

    def devices(self, where: str) -> list[Document]:
        """Return the devices of one pool without taints; *where* makes their uuids differ from others'."""
        found = [self._device(index, where) for index in range(self.count)]
        if not self.partitions:
            return found
        return [part for index, device in enumerate(found) for part in self._parts(index, device)]

    def counters(self) -> list[Document]:
        """Return the counter sets that the parts of divided devices share."""
        if not self.partitions:
            return []
        amounts = {name: {"value": amount} for name, amount in self.capacity.items()}
        return [{"name": f"{self.name}-{index}-counters", "counters": amounts} for index in range(self.count)]

    def _device(self, index: int, where: str) -> Document:
        name = f"{self.name}-{index}"
        device: Document = {
            "name": name,
            "attributes": {
                "index": {"int": index},
                "uuid": {"string": f"{self.name}-{uuid.uuid5(_NAMESPACE, f'{self.driver}/{where}/{name}')}"},
                "model": {"string": f"LATEST-{self.name.upper()}-MODEL"},
                "driverVersion": {"version": "1.0.0"},
                **self.attributes,
            },
            "capacity": {name: {"value": amount} for name, amount in self.capacity.items()},
        }
        if self.shared:
            device["allowMultipleAllocations"] = True
            for name, entry in device["capacity"].items():
                least = "1Gi" if name == "memory" else "1"
                policy = {"default": least, "validRange": {"min": least, "step": least}}
                entry["requestPolicy"] = policy
        return device

    def _parts(self, index: int, whole: Document) -> list[Document]:
        counter_set = f"{self.name}-{index}-counters"
        parts = []
        for number in range(self.partitions):
            share = {name: {"value": _share(v, self.partitions)} for name, v in self.capacity.items()}
            part = {**whole, "name": f"{self.name}-{index}-partition-{number}", "capacity": share}
            parts.append({**part, "consumesCounters": [{"counterSet": counter_set, "counters": share}]})
        full = {**whole, "name": f"{self.name}-{index}-full"}
        amounts = {name: {"value": amount} for name, amount in self.capacity.items()}
        return [*parts, {**full, "consumesCounters": [{"counterSet": counter_set, "counters": amounts}]}]


class _Written(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    profile: str = "gpu"
    driver: str = ""
    name: str = ""
    count: int | None = None
    pool: str = ""
    node_labels: dict[str, str] = {}
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
    partitions: int = 0
    shared: bool = False
    taints: str = "inline"
    extended_resource_name: str = ""
    schedule: list[Document] = []


PROFILES: Final[Mapping[str, Devices]] = {
    "gpu": Devices(),
    "net": Devices("net", NETWORK_DRIVER, "nic", 8, "fabric", capacity={"bandwidth": "100G"}),
}


def read_all(document: object) -> tuple[Devices, ...]:
    """Return what one description, or a list of them, says; raises DevicesError."""
    entries = document if isinstance(document, list) else [document]
    found = tuple(Devices.read(entry) for entry in entries)
    for what, values in (
        ("driver and pool", [(each.driver, each.pool) for each in found]),
        ("name", [each.name for each in found]),
    ):
        if len(set(values)) < len(values):
            raise DevicesError(f"two descriptions of devices have the same {what}")
    return found


def _attribute(name: str, value: Any) -> Document:
    if isinstance(value, dict):
        return value
    for kind, python in (("bool", bool), ("int", int), ("string", str)):
        if isinstance(value, python):
            return {kind: value}
    raise DevicesError(f"attribute {name}: {value!r} is no text, whole number or truth value")


def _amount(name: str, value: Any) -> str:
    try:
        return str(
            parse_quantity(str(value))
        )  # as the API prints it, so that stored and wanted can be compared
    except QuantityError as error:
        raise DevicesError(f"capacity {name}: {error}") from None


def _share(amount: str, parts: int) -> str:
    whole = parse_quantity(amount)
    return str(Quantity(whole.value // parts, 0, whole.format))
