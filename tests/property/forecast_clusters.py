"""Random clusters and changes for comparing a forecast with a living copy of the control plane.

No two nodes are alike, so that places are not a matter of chance. `python -m tests.property.forecast_clusters 2000`
compares as many by hand and prints what came out differently; a second number is the first seed.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from weir.gates import ALL_FEATURES
from weir.taints.notation import parse_taint
from weir.whatif.changes import (
    AddNodes,
    Apply,
    Change,
    ChangeError,
    Cordon,
    DeleteNode,
    Drain,
    Label,
    Nodes,
    Rollout,
    Scale,
    Taint,
    TaintEdit,
)
from weir.whatif.forecast import Forecast
from weir.whatif.run import WhatIfOptions, what_if

Document = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AHEAD_SECONDS = 150.0
VERSIONS = {"Job": "batch/v1"}
SIZES = (6, 10, 15, 23, 31)
ZONE = "topology.kubernetes.io/zone"


def tolerations(rng: random.Random) -> list[Document]:
    found: list[Document] = []
    for _ in range(rng.randrange(3)):
        operator = rng.choice(["Gt", "Lt", "Equal", "Exists", "SemverGt", "expression"])
        if operator == "expression":
            entry: Document = {"expression": f"taint.key == 'sla' && int(taint.value) > {rng.randrange(900)}"}
        elif operator == "SemverGt":
            entry = {"key": "driver", "operator": operator, "value": f"{rng.randrange(3)}.0.0"}
        else:
            entry = {"key": "sla", "operator": operator}
            if operator != "Exists":
                entry["value"] = str(rng.randrange(3) * 400)
        if rng.random() < 0.6:
            entry |= {"effect": "NoExecute", "tolerationSeconds": rng.choice([0, 20, 70])}
            if "expression" in entry:
                entry.pop("effect")
        found.append(entry)
    return found


def pod_spec(rng: random.Random, name: str) -> Document:
    container: Document = {"name": "c", "image": "i"}
    container["resources"] = {"requests": {"cpu": rng.choice(["100m", "500m", "1", "3"])}}
    if rng.random() < 0.2:
        container["readinessProbe"] = {"httpGet": {"port": 80}, "initialDelaySeconds": rng.randrange(9)}
    spec: Document = {"containers": [container], "tolerations": tolerations(rng)}
    if rng.random() < 0.25:
        spec["nodeSelector"] = {"pool": rng.choice(["x", "y"])}
    if rng.random() < 0.15:
        spec["priorityClassName"] = "high"
    if rng.random() < 0.15:
        spec["terminationGracePeriodSeconds"] = rng.choice([0, 1, 60])
    selector = {"matchLabels": {"app": name}}
    if rng.random() < 0.15:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": rng.choice(["pool", ZONE, "kubernetes.io/hostname"]),
                "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": selector,
            }
        ]
    if rng.random() < 0.1:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif rng.random() < 0.1:
        term = {"topologyKey": ZONE, "labelSelector": selector}
        weighted = {"weight": 50, "podAffinityTerm": term}
        where = rng.choice(["podAffinity", "podAntiAffinity"])
        spec["affinity"] = {where: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}
    if rng.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice([8080, 8081])}]
    if rng.random() < 0.3:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    return spec


def volume(name: str, zone: str) -> list[Document]:
    """Return a claim that is bound to a volume of one zone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    modes, size = ["ReadWriteMany"], {"storage": "1Gi"}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{name}-volume"},
            "spec": {
                "accessModes": modes,
                "capacity": size,
                "claimRef": {"namespace": "default", "name": f"{name}-claim", "uid": f"{name}-claim-uid"},
                "csi": {"driver": "disks.example", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": f"{name}-claim",
                "namespace": "default",
                "uid": f"{name}-claim-uid",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "accessModes": modes,
                "resources": {"requests": size},
                "volumeName": f"{name}-volume",
                "storageClassName": "",
            },
            "status": {"phase": "Bound", "accessModes": modes, "capacity": size},
        },
    ]


def device_objects(nodes: list[Document]) -> list[Document]:
    """Return a class of devices, a template of claims, and two devices on every other node."""
    request = {"name": "one", "exactly": {"deviceClassName": "gpu"}}
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node['metadata']['name']}-gpus"},
            "spec": {
                "driver": "gpu.example",
                "nodeName": node["metadata"]["name"],
                "pool": {"name": node["metadata"]["name"], "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            },
        }
        for node in nodes[::2]
    ]
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example'"}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one-gpu", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
        *slices,
    ]


def claim_of(pod: Document, device: str) -> Document:
    """Return the claim of *pod*, allocated a device of its node; the pod is told of it."""
    metadata, node = pod["metadata"], pod["spec"]["nodeName"]
    name = f"{metadata['name']}-gpu-0"
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": name}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    result = {"request": "one", "driver": "gpu.example", "pool": node, "device": device}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"{name}-uid",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [here]},
            },
            "reservedFor": [{"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}],
        },
    }


def gpu_users(rng: random.Random, nodes: list[Document]) -> list[Document]:
    """Return a ReplicaSet whose pods have a device each."""
    name, labels, spec = "gpus", {"app": "gpus"}, pod_spec(rng, "gpus")
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "gpus-uid"}
    pods = []
    for number, node in enumerate(nodes[::2][: rng.randrange(1, 3)]):
        pod = _pod(rng, f"{name}-{number}", labels, spec, {**owner, "controller": True}, node)
        pods += [pod, claim_of(pod, "gpu-0")] if pod["spec"].get("nodeName") else [pod]
    metadata = {"name": name, "namespace": "default", "uid": "gpus-uid", "generation": 1}
    template = {"metadata": {"labels": labels}, "spec": spec}
    replicas = sum(each["kind"] == "Pod" for each in pods)
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": body}, *pods]


def workload(rng: random.Random, number: int, nodes: list[Document]) -> list[Document]:
    """Return a workload with pods somewhere: as many as it wants, seldom one fewer."""
    kind = rng.choice(["ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "Pod", "ReplicaSet"])
    name = f"w{number}"
    labels, spec = {"app": name}, pod_spec(rng, name)
    found: list[Document] = []
    if rng.random() < 0.1:
        found += volume(name, rng.choice("ab"))
        mounted = {"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-claim"}}
        spec["volumes"] = [*spec.get("volumes", ()), mounted]
    wanted = len(nodes) if kind == "DaemonSet" else rng.randrange(1, 4)
    if kind == "Pod":
        return [*found, _pod(rng, f"{name}-bare", labels, spec, None, rng.choice(nodes))]
    if kind == "Job":
        spec["restartPolicy"] = "Never"
    template = {"metadata": {"labels": labels}, "spec": spec}
    body: Document = {"selector": {"matchLabels": labels}, "template": template}
    if kind in ("ReplicaSet", "Deployment", "StatefulSet"):
        body["replicas"] = wanted
    if kind == "StatefulSet":
        body["serviceName"] = name
    if kind == "Job":
        body = {"parallelism": wanted, "completions": wanted, "template": template}
    version = VERSIONS.get(kind, "apps/v1")
    metadata = {"name": name, "namespace": "default", "uid": f"{name}-uid", "generation": 1}
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": f"{name}-uid", "controller": True}
    if kind == "Job":
        body |= {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": f"{name}-uid"}}}
        extra = {"batch.kubernetes.io/controller-uid": f"{name}-uid", "batch.kubernetes.io/job-name": name}
        labels = {**labels, **extra}
        body["template"] = {**template, "metadata": {"labels": labels}}
    found.append({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": body})
    if kind == "Deployment":
        hashed = {**labels, "pod-template-hash": "abc"}
        inner = {**template, "metadata": {"labels": hashed}}
        rs = {
            "name": f"{name}-abc",
            "namespace": "default",
            "uid": f"{name}-rs",
            "labels": hashed,
            "generation": 1,
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [owner],
        }
        selector = {"matchLabels": hashed}
        body = {"replicas": wanted, "selector": selector, "template": inner}
        found.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": rs, "spec": body})
        owner = {**owner, "kind": "ReplicaSet", "name": f"{name}-abc", "uid": f"{name}-rs"}
        labels = hashed
    if rng.random() < 0.1:
        wanted -= 1
    for index in range(wanted):
        node = nodes[index % len(nodes)] if kind == "DaemonSet" else rng.choice(nodes)
        pod = _pod(rng, f"{name}-{index}", labels, spec, owner, node)
        if kind == "DaemonSet":
            term = {"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}
            required = {"nodeSelectorTerms": [{"matchFields": [term]}]}
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
            pod["spec"] = {**pod["spec"], "affinity": affinity}
        if kind == "Job":
            pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
        if kind == "StatefulSet":
            pod["metadata"]["labels"] = {**labels, "statefulset.kubernetes.io/pod-name": f"{name}-{index}"}
        found.append(pod)
    if rng.random() < 0.3 and kind != "DaemonSet":
        budget = {"minAvailable": rng.randrange(3), "selector": {"matchLabels": {"app": name}}}
        found.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": "default"},
                "spec": budget,
            }
        )
    return found


def _pod(
    rng: random.Random,
    name: str,
    labels: Document,
    spec: Document,
    owner: Document | None,
    node: Document,
) -> Document:
    metadata: Document = {"name": name, "namespace": "default", "uid": f"{name}-uid", "labels": labels}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(spec)}
    if rng.random() < 0.95:
        pod["spec"]["nodeName"] = node["metadata"]["name"]
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return pod


def leftovers(rng: random.Random, documents: list[Document]) -> list[Document]:
    """Return pods that ended, or are held while they are deleted, beside those that took their place."""
    found = []
    for each in documents:
        owner = next(iter(each["metadata"].get("ownerReferences") or ()), {})
        if each["kind"] == "Pod" and owner.get("kind") in ("ReplicaSet", "DaemonSet") and rng.random() < 0.1:
            pod = copy.deepcopy(each)
            name = f"{rng.choice('az')}-{each['metadata']['name']}"  # before or behind the others
            pod["metadata"] |= {"name": name, "uid": f"{name}-uid"}
            pod["status"] = {"phase": rng.choice(["Failed", "Succeeded", "Running"])}
            if pod["status"]["phase"] == "Running":
                pod["metadata"] |= {
                    "deletionTimestamp": "2026-03-01T11:59:00Z",
                    "finalizers": ["example.com/hold"],
                }
            if not pod["spec"].get("resourceClaims") and pod["spec"].get("nodeName"):
                found.append(pod)
    return found


def cluster(seed: int) -> tuple[list[Document], Change]:
    """Return the objects of a cluster, and what is done to it."""
    rng = random.Random(seed)
    nodes: list[Document] = []
    for number, cpu in enumerate(SIZES[: rng.randrange(3, 6)]):
        amounts = {"cpu": str(cpu), "memory": f"{3 * cpu}Gi", "pods": "110"}
        labels = {
            "kubernetes.io/hostname": f"n-{number}",
            "pool": "xy"[number % 2],
            ZONE: "ab"[number // 2 % 2],
        }
        taints = []
        if rng.random() < 0.3:
            effect = rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
            taints.append({"key": "sla", "value": str(rng.randrange(900)), "effect": effect})
        if rng.random() < 0.2:
            taints.append({"key": "driver", "value": f"{rng.randrange(4)}.1.0", "effect": "NoSchedule"})
        ready = rng.random() < 0.93
        if not ready:  # as node lifecycle has marked it long ago
            for effect in ("NoSchedule", "NoExecute"):
                taints.append({"key": "node.kubernetes.io/unreachable", "effect": effect})
        closed = rng.random() < 0.1
        if closed:
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        nodes.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n-{number}", "labels": labels},
                "spec": {"taints": taints, **({"unschedulable": True} if closed else {})},
                "status": {
                    "allocatable": amounts,
                    "capacity": amounts,
                    "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
                },
            }
        )
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
    }
    documents = [high, *nodes]
    for number in range(rng.randrange(2, 6)):
        documents += workload(rng, number, nodes)
    if rng.random() < 0.25:
        documents += [*device_objects(nodes), *gpu_users(rng, nodes)]
    documents += leftovers(random.Random(f"{seed} leftovers"), documents)
    names = [
        each for each in documents if each["kind"] in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")
    ]
    free = [each for each in names if not each["metadata"].get("ownerReferences")]
    if rng.random() < 0.3:
        return documents, Apply(tuple(manifests(rng, documents, free)))
    return documents, change(rng, free)


def manifests(rng: random.Random, documents: list[Document], workloads: list[Document]) -> list[Document]:
    """Return one or two manifests that change the cluster, or add to it."""
    node = rng.choice(["n-0", "n-1", "n-2"])
    taint = {
        "key": "sla",
        "value": str(rng.randrange(900)),
        "effect": rng.choice(["NoExecute", "NoSchedule"]),
    }
    labels = {"app": "new"}
    new = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "new", "namespace": "default"},
        "spec": {
            "replicas": rng.randrange(1, 4),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(rng, "new")},
        },
    }
    known: list[Document] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"taints": [taint]}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {"pool": "y"}}, "spec": {}},
        new,
    ]
    for each in workloads:
        named = {
            "apiVersion": each["apiVersion"],
            "kind": each["kind"],
            "metadata": {"name": each["metadata"]["name"], "namespace": "default"},
        }
        image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
        known.append({**named, "spec": {"template": image}})
        if each["kind"] != "DaemonSet":
            known.append({**named, "spec": {"replicas": rng.randrange(5)}})
        known.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "applied", "namespace": "default"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": each["metadata"]["name"]}}},
            }
        )
    slices = [each for each in documents if each["kind"] == "ResourceSlice"]
    if slices:
        tainted = rng.choice(slices)
        device = {"name": "gpu-0", "taints": [taint]}
        devices = [device, {"name": "gpu-1"}]
        rule = {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "broken"},
            "spec": {
                "deviceSelector": rng.choice(
                    [
                        {"driver": "gpu.example"},
                        {"driver": "gpu.example", "pool": tainted["metadata"]["name"][:-5]},
                    ]
                ),
                "taint": taint,
            },
        }
        known = [rule, rule, rule, {**tainted, "spec": {**tainted["spec"], "devices": devices}}, *known]
    first, second = rng.sample(known, 2)
    # of a workload that grows while its pods are replaced, who stands for whom is chance
    return (
        [first] if rng.random() < 0.6 or "replicas" in {*first["spec"], *second["spec"]} else [first, second]
    )


def change(rng: random.Random, workloads: list[Document]) -> Change:
    node = Nodes((rng.choice(["n-0", "n-1", "n-2"]),))

    def tainted(effect: str) -> Change:
        return Taint(node, (TaintEdit(parse_taint(f"sla={rng.randrange(900)}:{effect}")),))

    changes: list[Change] = [
        *(tainted("NoExecute") for _ in range(4)),
        tainted("NoSchedule"),
        Cordon(node),
        Drain(node),
        Drain(node, force=True),
        DeleteNode(node),
        Label(node, (("pool", "y"),)),
        AddNodes(2, "n-0"),
    ]
    for each in workloads:
        short, name = each["kind"].lower(), each["metadata"]["name"]
        if each["kind"] != "DaemonSet":
            changes.append(Scale(f"{short}/{name}", rng.randrange(5)))
        if each["kind"] != "ReplicaSet":
            changes.append(Rollout(f"{short}/{name}"))
    return rng.choice(changes)


def summary(found: Forecast, there: set[str]) -> dict[str, Any]:
    """Return what a forecast says, apart from who of equal pods went where; *there* are the pods of the snapshot.

    Others were made before the change; they go by the beginning of their name, the rest being chance.
    """

    def called(pod: str) -> str:
        return pod if pod in there else f"{pod.rpartition('-')[0]}-"

    ends: dict[str, Counter[tuple[str, str]]] = {}
    for one in found.leaving:
        ends.setdefault(one.workload, Counter())[one.ends_on, one.why_nowhere] += 1
    return {
        # of equal pods that were made before the change their random uids decide which goes first
        "leaving": sorted(
            (
                called(one.pod),
                one.node if one.pod in there else "",
                round(one.after.total_seconds()),
                one.cause.say(),
            )
            for one in found.leaving
        ),
        "left": sorted((called(one.pod), one.node) for one in found.leaving),
        "ends": ends,
        "workloads": sorted(
            (each.name, each.before, each.pods, each.waiting, each.lost, each.why, each.circle is not None)
            # how often, and where it is at the end, depends on for how long a loop is followed
            + ((each.after, each.left) if each.circle is None else ())
            for each in found.workloads
        ),
        "circles": [(each.workload, each.nodes, each.cause.say(), each.pods) for each in found.circles],
        "budgets": [
            (each.name, each.desired, each.lowest, each.until_the_end, sorted(map(called, each.blocks)))
            for each in found.budgets
        ],
        "counts": (
            found.staying,
            sorted(called(each.pod) for each in found.locked_out),
            found.anyway,
            found.settled,
            # a loop that goes on anyway ends the looking, sooner or later
            None if found.baseline and found.baseline.circles else round(found.looked.total_seconds()),
        ),
        "newly": (
            sorted((called(t.pod), t.node) for t in found.helped),
            sorted((called(t.pod), t.why_not) for t in found.hindered),
        ),
        "room": found.room,
        "notes": (found.notes, found.not_considered),
        "changed": found.changed,
    }


def differences(seed: int) -> dict[str, tuple[Any, Any]]:
    """Return in what a forecast and a copy of the control plane come out differently, or contradict themselves.

    A forecast in which pods that nothing can touch only take room is held against both.
    """
    answers, lost = [], list[str]()
    for options in ({"control_plane": False}, {"control_plane": True}, {"leave_out": True}):
        documents, made = cluster(seed)
        asked = WhatIfOptions(ALL_FEATURES, NOW, AHEAD_SECONDS, seed)
        there = {f"default/{each['metadata']['name']}" for each in documents if each["kind"] == "Pod"}
        try:
            found = what_if(documents, [made], asked, **options)
            answers.append(summary(found, there))
            fewer = {each.name: each.before - each.after for each in found.workloads}
            gone = Counter(one.workload for one in found.leaving if one.lost)
            lost += [name for name, count in gone.items() if count > max(fewer[name], 0)]
        except ChangeError as error:
            answers.append({"refused": str(error)})
    forecast, living, apart = answers
    if lost:
        return {"said to be lost, though as many run": (lost, ())}
    return {
        name: (said, living.get(name) if living.get(name) != said else apart.get(name))
        for name in {**forecast, **living}
        if not (said := forecast.get(name)) == living.get(name) == apart.get(name)
    }


def main(count: int, first: int = 0) -> int:
    """Compare *count* clusters; return how many came out differently."""
    wrong = 0
    for seed in range(first, first + count):
        if found := differences(seed):
            wrong += 1
            print(f"seed {seed}: {cluster(seed)[1].say()}", flush=True)
            for name, (forecast, living) in found.items():
                print(f"  {name}\n    forecast {forecast}\n    living   {living}", flush=True)
    print(f"{wrong} of {count} came out differently")
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:])), 1))
