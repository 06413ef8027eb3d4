"""A scheduler's engine over nodes, devices and claims, without any server: for tests of DynamicResources."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.unit.devices.builders import DRIVER, T0, device, device_class, slice_of
from weir.devices.tracker import Update
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Node, Pod, read
from weir.objects.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from weir.scheduler.claims import Claims
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import Diagnosis
from weir.scheduler.plugins.claim_reservation import ClaimReservation

Document = dict[str, Any]


class Scene:
    """Nodes `node-1`, `node-2`, … with GPUs, and the engine that places pods on them."""

    def __init__(self, nodes: int = 2, gpus: int = 2, gates: Gates = ALL_FEATURES) -> None:
        self.now: datetime = T0
        self._version = 0
        self.claims = Claims(gates, lambda: self.now)
        self.engine = Engine(gates, claims=self.claims, share_id=lambda: "share")
        self.claims.put_class(device_class("gpu"))
        for number in range(1, nodes + 1):
            self.node(f"node-{number}")
            if gpus:
                self.put(slice_of(f"s-{number}", *self.gpus(gpus), pool=f"node-{number}"))

    @staticmethod
    def gpus(count: int, *taints: str) -> list[Document]:
        return [device(f"gpu-{n}", *taints, attributes={"index": {"int": n}}) for n in range(count)]

    def node(self, name: str, **more: Any) -> None:
        status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}
        self.engine.table.put_node(
            read(
                Node,
                {
                    "metadata": {"name": name, "labels": more.pop("labels", {})},
                    "spec": more,
                    "status": status,
                },
            )
        )

    def put(self, thing: ResourceSlice | DeviceTaintRule | DeviceClass) -> Update:
        if isinstance(thing, ResourceSlice):
            return self.claims.put_slice(thing)
        if isinstance(thing, DeviceTaintRule):
            return self.claims.put_rule(thing)
        return self.claims.put_class(thing)

    def claim(
        self, name: str, *requests: Document, status: Document | None = None, **metadata: Any
    ) -> ResourceClaim:
        """Store a claim; without requests it asks for one GPU."""
        self._version += 1
        found = read(
            ResourceClaim,
            {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "uid": f"uid-{name}",
                    "resourceVersion": str(self._version),
                    **metadata,
                },
                "spec": {"devices": {"requests": list(requests) or [ask()]}},
                "status": status or {},
            },
        )
        self.claims.put_claim(found)
        return found

    def place(self, pod: Pod) -> Placement | Diagnosis:
        return self.engine.place(pod)

    def why(self, pod: Pod) -> str:
        """Return the message of a pod that goes nowhere."""
        answer = self.place(pod)
        assert isinstance(answer, Diagnosis), answer
        return answer.message

    def schedule(self, pod: Pod) -> tuple[str, list[str]]:
        """Place the pod and promise its devices; return the node and the devices it gets there."""
        answer = self.place(pod)
        assert isinstance(answer, Placement), answer
        self.engine.assume(pod.key, pod, answer.node)
        return answer.node, devices_of(self.reserve(pod, answer.node))

    def reserve(self, pod: Pod, node: str) -> ClaimReservation:
        (promise,) = self.engine.reserve(pod, node)
        assert isinstance(promise, ClaimReservation)
        return promise


def devices_of(promise: ClaimReservation) -> list[str]:
    return [
        result["device"]
        for binding in promise.bindings
        if binding.allocation is not None
        for result in binding.allocation["devices"].get("results", ())
    ]


def ask(name: str = "r", **more: Any) -> Document:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **more}}


def allocation(
    node: str, *devices: str, tolerations: list[Document] | None = None, reserved: tuple[str, ...] = ()
) -> Document:
    """Return the status of a claim allocated on *node*, reserved for the pods with these UIDs."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": node, "device": name, "tolerations": tolerations or []}
        for name in devices
    ]
    names = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": names}]},
        },
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved],
    }


def pod(name: str = "p", *claims: str, template: str = "", **more: Any) -> Pod:
    """Return a pod that uses *claims* by name, and one from a template if it is named."""
    entries: list[Document] = [{"name": each, "resourceClaimName": each} for each in claims]
    if template:
        entries.append({"name": "t", "resourceClaimTemplateName": template})
    return read(
        Pod,
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"resourceClaims": entries, **more.pop("spec", {})},
            "status": more,
        },
    )
