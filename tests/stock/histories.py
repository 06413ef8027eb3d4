"""Random histories on a stock cluster and on one that has every operator itself: after each step they look the same.

Pods, Deployments and DaemonSets with numeric, SemVer and CEL tolerations and SemVer affinity come and go while the
taints and labels of nodes change. Pods are pinned to a node, so that where they may be is decided by what is tested and
not by a scheduler's taste.
"""

from __future__ import annotations

import random
from typing import Any

from tests.stock.virtual import StockCluster
from weir.gates import ALL_FEATURES

Document = dict[str, Any]

NODES = ("n0", "n1", "n2")
KEYS = ("sla", "kernel")
VALUES = ("0", "50", "500", "950", "960", "0950", "high", "1.2.3", "1.3.0", "2.0.0-rc.1")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
VERSIONS = ("1.2.0", "1.2.3", "1.3.0", "2.0.0", "unknown")
EXPRESSIONS = (
    "taint.key == 'sla' && taint.value != 'high'",
    "taint.effect == 'NoExecute'",
    "taint.key == 'kernel' && semver(taint.value).major() >= 1",
    "int(taint.value) > 100",
)
STEP_SECONDS = 6.0


def toleration(chance: random.Random, *, timed: bool = True) -> Document:
    operator = chance.choice(("Gt", "Lt", "SemverGt", "SemverLt", "SemverEq", "CEL", "Equal", "Exists"))
    if operator == "CEL":
        return {"operator": "CEL", "value": chance.choice(EXPRESSIONS)}
    effect = chance.choice(("", "", *EFFECTS))
    found: Document = {"key": chance.choice(KEYS), "operator": operator}
    if operator in ("Gt", "Lt"):
        found["value"] = chance.choice(("100", "900"))
    elif operator.startswith("Semver"):
        found["value"] = chance.choice(("1.2.3", "1.0.0"))
    elif operator == "Equal":
        found["value"] = chance.choice(VALUES)
    if effect:
        found["effect"] = effect
    if timed and effect == "NoExecute" and chance.random() < 0.5:
        found["tolerationSeconds"] = chance.randint(3, 20)
    return found


def pod_spec(chance: random.Random, *, pinned: bool = True) -> Document:
    spec: Document = {
        "containers": [{"name": "c", "image": "i"}],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [toleration(chance, timed=pinned) for _ in range(chance.randint(1, 3))],
    }
    if pinned:
        spec["nodeSelector"] = {"kubernetes.io/hostname": chance.choice(NODES)}
    if chance.random() < 0.4:
        requirement = {
            "key": "version",
            "operator": chance.choice(("SemverGt", "SemverLt", "SemverEq")),
            "values": [chance.choice(("1.2.3", "1.3.0"))],
        }
        required = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return spec


def workload(kind: str, name: str, spec: Document) -> Document:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    more = {"replicas": 1} if kind == "Deployment" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **more},
    }


class History:
    """One random history, lived twice."""

    def __init__(self, seed: int, steps: int) -> None:
        self._chance = random.Random(seed)
        self._steps, self._names = steps, 0
        self._pods: list[str] = []
        self.told: list[str] = []

    def differences(self) -> list[str]:
        """Live through it; return what was different, with what had happened."""
        with StockCluster() as stock, StockCluster(install=False, gates=ALL_FEATURES) as native:
            both = (stock, native)
            for node in NODES:
                version = self._chance.choice(VERSIONS)
                for cluster in both:
                    cluster.node(node, version=version)
            for _ in range(self._steps):
                self._step(both)
                for cluster in both:
                    cluster.advance(STEP_SECONDS)
                lowered, natively = seen(stock), seen(native)
                if lowered != natively:
                    wrong = {key for key in lowered | natively if lowered.get(key) != natively.get(key)}
                    return [
                        f"{key}: {lowered.get(key)} natively {natively.get(key)}" for key in sorted(wrong)
                    ]
        return []

    def _step(self, both: tuple[StockCluster, ...]) -> None:
        chance = self._chance
        match chance.choice(
            ("pod", "pod", "deployment", "daemonset", "taint", "taint", "taint", "label", "delete")
        ):
            case "taint":
                node = chance.choice(NODES)
                taints = {
                    (chance.choice(KEYS), chance.choice(EFFECTS)): chance.choice(VALUES)
                    for _ in range(chance.randint(0, 2))
                }
                self.told.append(f"taint {node} {taints}")
                for cluster in both:
                    cluster.set_taints(
                        node, *((key, value, effect) for (key, effect), value in taints.items())
                    )
            case "label":
                node, version = chance.choice(NODES), chance.choice(VERSIONS)
                self.told.append(f"label {node} {version}")
                for cluster in both:
                    cluster.patch("Node", node, {"metadata": {"labels": {"version": version}}})
            case "delete" if self._pods:
                name = self._pods.pop(chance.randrange(len(self._pods)))
                self.told.append(f"delete {name}")
                for cluster in both:
                    cluster.delete("Pod", name)
            case "deployment" | "daemonset" as made:
                kind = {"deployment": "Deployment", "daemonset": "DaemonSet"}[made]
                spec = pod_spec(chance, pinned=kind == "Deployment")
                self._create(both, workload(kind, self._name(made), spec), spec)
            case _:
                spec, name = pod_spec(chance), self._name("pod")
                self._pods.append(name)
                metadata = {"name": name, "namespace": "default"}
                self._create(
                    both, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, spec
                )

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}-{self._names}"

    def _create(self, both: tuple[StockCluster, ...], document: Document, spec: Document) -> None:
        self.told.append(f"create {document['kind']} {document['metadata']['name']} {spec}")
        for cluster in both:
            lowered = cluster.operators
            found = (
                spec["tolerations"] if lowered else [natively_spelled(entry) for entry in spec["tolerations"]]
            )
            cluster.create(_with_tolerations(document, spec, found))


def natively_spelled(entry: Document) -> Document:
    return {"expression": entry["value"]} if entry["operator"] == "CEL" else entry


def _with_tolerations(document: Document, spec: Document, tolerations: list[Document]) -> Document:
    changed = {**spec, "tolerations": tolerations}
    if document["kind"] == "Pod":
        return {**document, "spec": changed}
    template = {**document["spec"]["template"], "spec": changed}
    return {**document, "spec": {**document["spec"], "template": template}}


def seen(cluster: StockCluster) -> dict[str, list[str]]:
    """Return where the pods are: bare ones by name, those of a workload together; "" for one that waits."""
    found: dict[str, list[str]] = {}
    for pod in cluster.list("Pod", "default"):
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            continue
        key = (metadata.get("labels") or {}).get("app") or metadata["name"]
        found.setdefault(key, []).append(pod["spec"].get("nodeName", ""))
    return {key: sorted(nodes) for key, nodes in found.items()}
