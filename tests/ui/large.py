"""A dump of a large GPU fleet: 5,000 nodes, 2,000 workloads and what runs of them, made the same every time."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]
POOLS = ("a100", "h100", "l4", "cpu", "spot")
ZONES = ("eu-1a", "eu-1b", "eu-1c")


def node(number: int) -> Document:
    """Return one node: its pool decides its size, its number its rating."""
    pool, zone = POOLS[number % 5], ZONES[number % 3]
    gpus = {"a100": "8", "h100": "8", "l4": "4"}.get(pool)
    amounts = {"cpu": "96" if gpus else "32", "memory": "768Gi" if gpus else "128Gi", "pods": "110"}
    taints = [{"key": "sla", "value": str(900 + 20 * (number // 15 % 5)), "effect": "NoExecute"}]
    if gpus:
        taints.append({"key": "nvidia.com/gpu", "value": pool, "effect": "NoSchedule"})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{number:05}",
            "labels": {
                "kubernetes.io/hostname": f"node-{number:05}",
                "pool": pool,
                "topology.kubernetes.io/zone": zone,
            },
        },
        "spec": {"taints": taints},
        "status": {"allocatable": {**amounts, **({"nvidia.com/gpu": gpus} if gpus else {})}},
    }


def pod_spec(number: int) -> Document:
    """Return what the pods of a workload ask for: sixty different ways."""
    pool = POOLS[number % 5]
    spec: Document = {
        "containers": [
            {
                "name": "c",
                "image": f"registry.example/team-{number % 40}/app:{number}",
                "resources": {"requests": {"cpu": str(1 + number % 3), "memory": "2Gi"}},
            }
        ],
        "tolerations": [
            {"key": "sla", "operator": "Gt", "value": str(899 + 20 * (number % 4)), "effect": "NoExecute"}
        ],
        "nodeSelector": {"pool": pool},
    }
    if pool in ("a100", "h100", "l4"):
        spec["tolerations"].append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
        resources = spec["containers"][0]["resources"]
        resources["requests"]["nvidia.com/gpu"] = "1"
        resources["limits"] = {"nvidia.com/gpu": "1"}
    return spec


def documents(nodes: int = 5000, workloads: int = 2000, pods: int = 10) -> list[Document]:
    """Return the objects of the fleet; every workload has *pods* replicas, and one in ten waits for two more."""
    found = [node(number) for number in range(nodes)]
    for number in range(workloads):
        namespace, name = f"team-{number % 40}", f"app-{number:04}"
        spec = pod_spec(number)
        labels = {"app": name}
        found.append(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{number}"},
                "spec": {
                    "replicas": pods + (2 if number % 10 == 0 else 0),
                    "serviceName": name,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            }
        )
        owner = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": name,
            "uid": f"uid-{number}",
            "controller": True,
        }
        for replica in range(pods):
            at = (number % 5 + 5 * (number * pods + replica)) % nodes
            found.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{name}-{replica}",
                        "namespace": namespace,
                        "labels": labels,
                        "ownerReferences": [owner],
                    },
                    "spec": {**spec, "nodeName": f"node-{at:05}"},
                    "status": {"phase": "Running"},
                }
            )
    return found


def slices(devices: int, each: int = 8) -> list[Document]:
    """Return so many devices, *each* on every node; one in fifty is hot."""
    found: list[Document] = []
    for number in range(devices // each):
        name = f"node-{number:05}"
        listed: list[Document] = [
            {"name": f"gpu-{at}", "attributes": {"model": {"string": POOLS[number % 3]}}}
            for at in range(each)
        ]
        if number % 6 == 0:
            listed[0]["taints"] = [{"key": "gpu.example.com/hot", "value": "93", "effect": "NoSchedule"}]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        found.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{name}-gpus"},
                "spec": {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": listed},
            }
        )
    return found
