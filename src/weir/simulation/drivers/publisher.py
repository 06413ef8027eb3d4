"""ResourceSlices that a simulated driver must write for the current state of its devices.

Spec: dra.md 11 "Simulated driver" (publishing rules), 3.2 "Pools, generations, completeness"; D-01 for the form in
which taints have a slice of their own.
A pool's generation increases, in all its slices at once, when devices or the number of slices change; a change of
taints rewrites one slice and keeps the generation. A taint that stays keeps its timeAdded, also across forms. A
separate taint slice always exists, empty if need be, so that the first taint changes one object only. A driver
without devices publishes an empty slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from weir.gates import ALL_FEATURES
from weir.simulation.drivers.device_models import Devices, DevicesError
from weir.simulation.drivers.faults import DUPLICATES, POOL, WRONG_COUNT, Condition
from weir.validate import validate

Document = dict[str, Any]
#: How many a slice holds: with taints or counters the API takes no more.
DEVICES_PER_SLICE: Final = 64
TAINTS_PER_SLICE: Final = 32
COUNTER_SETS_PER_SLICE: Final = 8
SIMULATED: Final = "weir.dev/simulated"
#: The labels by which drivers know what is theirs, unless they are given others.
MARKS: Final[Mapping[str, str]] = {SIMULATED: "true"}
API_VERSION: Final = "resource.k8s.io/v1"
WELL: Final = Condition()
_EARLY: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PoolLocation:
    """A pool's name, the nodes that can use it, and its owner."""

    pool: str
    node: Mapping[str, Any]  #: the field of a slice's spec that says which nodes may use it
    owner: Document | None = None  #: ownerReference, for a pool that goes with its node

    @classmethod
    def on_node(cls, name: str, uid: str) -> PoolLocation:
        """Return the place of devices that belong to one node."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}
        return cls(name, {"nodeName": name}, owner)

    @classmethod
    def shared(cls, pool: str, labels: Mapping[str, str] | None = None) -> PoolLocation:
        """Return the place of devices that every node reaches, or every node with these labels."""
        if not labels:
            return cls(pool, {"allNodes": True})
        wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
        return cls(pool, {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}})


@dataclass(frozen=True)
class Plan:
    """What to write, in this order, and then to delete."""

    create: tuple[Document, ...] = ()
    update: tuple[Document, ...] = ()
    delete: tuple[Document, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)


def contents(devices: Devices, where: str, now: Condition = WELL) -> list[Document]:
    """Return what each slice of a pool holds, in order: counters, devices, then taints that stand apart."""
    there = [
        device
        for device in devices.devices(where)
        if device["name"] not in now.unplugged and POOL not in now.unplugged
    ]
    found: list[Document] = [
        {"sharedCounters": part} for part in _parts(devices.counters(), COUNTER_SETS_PER_SLICE)
    ]
    tainted = [(device, [dict(t) for t in _taints(device["name"], now)]) for device in there]
    if devices.taint_form == "inline":
        there = [{**device, "taints": taints} if taints else device for device, taints in tainted]
    found += [{"devices": part} for part in _parts(there, DEVICES_PER_SLICE)]
    if devices.taint_form == "separate":
        apart = [{"device": d["name"], "taint": taint} for d, taints in tainted for taint in taints]
        found += [{"taints": part} for part in _parts(apart, TAINTS_PER_SLICE)] or [{}]
    if now.broken == DUPLICATES and there:
        found.append({"devices": [tainted[0][0]]})
    return found or [{}]


def _taints(device: str, now: Condition) -> Iterator[Document]:
    yield from now.taints.get(POOL, ())
    yield from now.taints.get(device, ())


def _parts(entries: list[Document], size: int) -> list[list[Document]]:
    return [entries[start : start + size] for start in range(0, len(entries), size)]


def plan(
    devices: Devices,
    place: PoolLocation,
    stored: Sequence[Document],
    now: Condition = WELL,
    marks: Mapping[str, str] = MARKS,
) -> Plan:
    """Return what makes the *stored* slices of a pool show *devices* as they are *now*; new ones are labelled."""
    wanted = contents(devices, place.pool, now)
    count = len(wanted) + (now.broken == WRONG_COUNT)
    generation = max((_pool(slice_)["generation"] for slice_ in stored), default=0)
    current: dict[int, Document] = {}
    surplus: list[Document] = []
    for found in sorted(stored, key=lambda s: (-_pool(s)["generation"], s["metadata"]["name"])):
        index = _index(found["metadata"]["name"])
        if index is None or index >= len(wanted) or index in current:
            surplus.append(found)
        else:
            current[index] = found
    changed = any(_moved(found, wanted[index], count, generation) for index, found in current.items())
    if not stored or changed or any(_pool(found)["generation"] == generation for found in surplus):
        generation += 1
    times = _times(stored)
    create, update = [], []
    for index, content in enumerate(wanted):
        spec: Document = {
            "driver": devices.driver,
            "pool": {"name": place.pool, "generation": generation, "resourceSliceCount": count},
            **place.node,
            **_timed(content, times),
        }
        old = current.get(index)
        if old is None:
            create.append(_slice(index, devices, place, spec, marks))
        elif old["spec"] != spec:
            update.append({**old, "apiVersion": API_VERSION, "kind": "ResourceSlice", "spec": spec})
    return Plan(tuple(create), tuple(update), tuple(surplus))


def _slice(
    index: int, devices: Devices, place: PoolLocation, spec: Document, marks: Mapping[str, str]
) -> Document:
    metadata: Document = {
        "generateName": f"{index:05x}-{devices.driver}-{place.pool.replace('/', '-')}-",
        "labels": dict(marks),
    }
    if place.owner is not None:
        metadata["ownerReferences"] = [place.owner]
    return {"apiVersion": API_VERSION, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _index(name: str) -> int | None:
    """Return which slice of its pool a name belongs to.

    >>> _index("0000a-gpu.example.com-node-1-x7k2p"), _index("mine")
    (10, None)
    """
    digits = name.partition("-")[0]
    try:
        return int(digits, 16) if len(digits) >= 5 else None
    except ValueError:
        return None


def _pool(found: Document) -> Document:
    pool: Document = found["spec"]["pool"]
    return {"generation": 0, **pool}


def _moved(found: Document, content: Document, count: int, generation: int) -> bool:
    """Return whether a slice holds other devices than it should, or another number of slices than there should be."""
    pool = _pool(found)
    if pool["generation"] != generation:
        return True
    return pool["resourceSliceCount"] != count or _fixed(found["spec"]) != _fixed(content)


def _fixed(content: Document) -> Document:
    """Return what a slice holds, without taints."""
    bare = [{k: v for k, v in d.items() if k != "taints"} for d in content.get("devices") or ()]
    return {"devices": bare, "counters": content.get("sharedCounters") or []}


def _times(stored: Sequence[Document]) -> dict[tuple[str, ...], str]:
    """Return when the taints that are published were added; of several the earliest in the newest generation."""
    found: dict[tuple[str, ...], str] = {}
    for slice_ in sorted(stored, key=lambda s: -_pool(s)["generation"]):
        spec = slice_["spec"]
        inline = ((d["name"], t) for d in spec.get("devices") or () for t in d.get("taints") or ())
        apart = ((entry["device"], entry["taint"]) for entry in spec.get("taints") or ())
        for device, taint in (*inline, *apart):
            if taint.get("timeAdded"):
                found.setdefault(_same(device, taint), taint["timeAdded"])
    return found


def _same(device: str, taint: Document) -> tuple[str, ...]:
    return device, taint["key"], taint.get("value", ""), taint["effect"]


def _timed(content: Document, times: Mapping[tuple[str, ...], str]) -> Document:
    """Return *content* with the times of taints that are published already."""

    def timed(device: str, taint: Document) -> Document:
        added = times.get(_same(device, taint))
        return {**taint, "timeAdded": added} if added and not taint.get("timeAdded") else taint

    if "taints" in content:
        return {"taints": [{**e, "taint": timed(e["device"], e["taint"])} for e in content["taints"]]}
    if "devices" in content:
        return {
            "devices": [
                {**d, "taints": [timed(d["name"], t) for t in d["taints"]]} if "taints" in d else d
                for d in content["devices"]
            ]
        }
    return content


def device_class(devices: Devices, marks: Mapping[str, str] = MARKS) -> Document:
    """Return the device class of the driver."""
    spec: Document = {"selectors": [{"cel": {"expression": f"device.driver == '{devices.driver}'"}}]}
    if devices.extended_resource:
        spec["extendedResourceName"] = devices.extended_resource
    metadata = {"name": devices.driver, "labels": dict(marks)}
    return {"apiVersion": API_VERSION, "kind": "DeviceClass", "metadata": metadata, "spec": spec}


def check_publishable(devices: Devices) -> None:
    """Raise DevicesError unless the API would take slices and class of *devices*, with every scheduled taint."""
    place = PoolLocation.shared(devices.pool or "node", devices.node_labels)
    made = [*plan(devices, place, []).create, device_class(devices)]
    one = replace(devices, count=1, schedule=())
    for fault in devices.faults(_EARLY):
        if fault.taint is not None:
            tainted = Condition({POOL: (dict(fault.taint),)})
            made += plan(one, place, [], tainted).create
    for document in made:
        named = {**document, "metadata": {"name": document["metadata"].get("name", "slice")}}
        for error in validate(named, gates=ALL_FEATURES):
            raise DevicesError(" ".join(str(error).split()))


def dropped(sent: Document, answer: Document) -> tuple[str, ...]:
    """Return the features that the server behind *answer* seems to have off, by what it left out of *sent*."""
    before, after = sent["spec"], answer["spec"]
    gone = []
    if _published(before) > _published(after):
        gone.append("DRADeviceTaints")
    pairs = list(zip(before.get("devices") or (), after.get("devices") or (), strict=False))
    for gate, name in (
        ("DRAPartitionableDevices", "consumesCounters"),
        ("DRAConsumableCapacity", "allowMultipleAllocations"),
    ):
        lists = (
            name == "consumesCounters" and before.get("sharedCounters") and not after.get("sharedCounters")
        )
        if lists or any(name in sent_ and name not in kept for sent_, kept in pairs):
            gone.append(gate)
    return tuple(gone)


def _published(spec: Document) -> int:
    return len(spec.get("taints") or ()) + sum(len(d.get("taints") or ()) for d in spec.get("devices") or ())
