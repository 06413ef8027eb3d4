"""A cluster under virtual time with devices, claims that hold them and pods that use them; no scheduler is asked."""

from __future__ import annotations

from typing import Any

from weir.simulation.cluster import Cluster
from weir.simulation.named_kinds import kind_called

VERSION = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"
CONTROLLERS = ("device-taint-eviction",)

Document = dict[str, Any]


def taint(text: str, **more: Any) -> Document:
    """Return the taint that `key=value:Effect` describes."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {}), **more}


def tolerate(key: str = "a", operator: str = "Exists", seconds: int | None = None, **more: Any) -> Document:
    found = {"key": key, "operator": operator, "effect": "NoExecute", **more}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


def slice_document(
    pool: str = "node-0", devices: int | dict[str, list[Document]] = 8, *, generation: int = 1, count: int = 1
) -> Document:
    tainted = {f"gpu-{n}": [] for n in range(devices)} if isinstance(devices, int) else devices
    entries = [
        {"name": name, "attributes": {"index": {"int": n}}, **({"taints": taints} if taints else {})}
        for n, (name, taints) in enumerate(tainted.items())
    ]
    return {
        "apiVersion": VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{pool}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": pool,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": entries,
        },
    }


def rule_document(name: str = "bad", text: str = "a:NoExecute", selector: Any = ..., **more: Any) -> Document:
    found = {"driver": DRIVER} if selector is ... else selector
    spec: Document = {"taint": taint(text, **more)}
    if found is not None:
        spec["deviceSelector"] = found
    return {"apiVersion": VERSION, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


class Devices:
    """Short words for what tests of device evictions do to a cluster."""

    def __init__(self, **options: Any) -> None:
        self.cluster = Cluster(controllers=options.pop("controllers", CONTROLLERS), **options)

    def __enter__(self) -> Devices:
        return self

    def __exit__(self, *problem: object) -> None:
        self.cluster.close()

    def put(self, document: Document) -> Document:
        """Create an object, or replace its spec."""
        kind, name = document["kind"], document["metadata"]["name"]
        found = self.cluster.get(kind, name)
        if found is None:
            return self.cluster.create(document)
        whole = {**found, "apiVersion": document["apiVersion"], "kind": kind, "spec": document["spec"]}
        return self.cluster._do(self.cluster.client.update(kind_called(kind), whole))

    def status(self, kind: str, name: str, status: Document) -> Document:
        client = self.cluster.client
        return self.cluster._do(
            client.patch(kind_called(kind), name, {"status": status}, "default", subresource="status")
        )

    def claim(
        self, name: str, *devices: str, tolerations: tuple[Document, ...] = (), spec: Any = None
    ) -> None:
        """Add a claim that holds devices (`pool/device`), as if the scheduler had allocated it."""
        wanted = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": DRIVER}}]}}
        document = {
            "apiVersion": VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": name, "finalizers": [FINALIZER]},
            "spec": spec or wanted,
        }
        self.cluster.create(document)
        results = []
        for device in devices:
            pool, _, unit = device.partition("/")
            result = {"request": "r", "driver": DRIVER, "pool": pool, "device": unit}
            results.append({**result, **({"tolerations": list(tolerations)} if tolerations else {})})
        self.status("ResourceClaim", name, {"allocation": {"devices": {"results": results}}})

    def pod(
        self, name: str, *claims: str, node: str = "node-0", grace: int = 30, reserve: bool = True
    ) -> Document:
        """Add a pod on a node that uses claims and has them reserved."""
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": grace,
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
        }
        if node:
            spec["nodeName"] = node
        made = self.cluster.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        )
        if reserve:
            for claim in claims:
                self.reserve(claim, made)
        return made

    def reserve(self, claim: str, *pods: Document) -> None:
        found = self.cluster.get("ResourceClaim", claim)
        assert found is not None
        reserved = found["status"].get("reservedFor") or []
        there = {consumer["uid"] for consumer in reserved}
        for pod in pods:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if uid not in there:  # the claim controller may have been faster
                reserved.append({"resource": "pods", "name": name, "uid": uid})
        self.status("ResourceClaim", claim, {"reservedFor": reserved})

    def use(self, count: int, *, tolerations: tuple[Document, ...] = (), per_pool: int = 64) -> None:
        """Add *count* pods with a device each."""
        for pool in range((count + per_pool - 1) // per_pool):
            if self.cluster.get("ResourceSlice", f"slice-node-{pool}") is None:
                self.put(slice_document(f"node-{pool}", per_pool))
        for number in range(count):
            pool, unit = divmod(number, per_pool)
            self.claim(f"c-{number:04}", f"node-{pool}/gpu-{unit}", tolerations=tolerations)
            self.pod(f"p-{number:04}", f"c-{number:04}", node=f"node-{pool}")

    # ── what came of it ──────────────────────────────────────────────────────────────────────────

    @property
    def staying(self) -> list[str]:
        """The pods nobody has deleted."""
        pods = self.cluster.list("Pod")
        return [p["metadata"]["name"] for p in pods if "deletionTimestamp" not in p["metadata"]]

    @property
    def leaving(self) -> list[str]:
        pods = self.cluster.list("Pod")
        return [p["metadata"]["name"] for p in pods if "deletionTimestamp" in p["metadata"]]

    def told(self, pod: str = "") -> list[str]:
        """What events of device evictions say, with the count behind it."""
        found = self.cluster.events("DeviceTaintManagerEviction")
        about = [event for event in found if pod in ("", event["involvedObject"]["name"])]
        return [message for event in about for message in [event["message"]] * event["count"]]

    def condition(self, rule: str = "bad") -> tuple[str, str, str, int]:
        """The rule's condition: status, reason, message, observed generation."""
        found = self.cluster.get("DeviceTaintRule", rule)
        assert found is not None
        (condition,) = found["status"]["conditions"]
        assert condition["type"] == "EvictionInProgress"
        return (
            condition["status"],
            condition["reason"],
            condition["message"],
            condition["observedGeneration"],
        )
