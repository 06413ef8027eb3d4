"""Random histories on a stock cluster and on one that has every operator itself: after each step they look the same.

Pods, Deployments, StatefulSets, DaemonSets and Jobs with numeric, SemVer and CEL tolerations, SemVer affinity (required
and preferred) and volumes with SemVer affinity come, change and go, while taints and labels of nodes change and nodes
are cordoned. Most pods are pinned to a node, so that where they may be is decided by what is tested; those with
preferred terms are not, and prefer the nodes in one order, so that no tie is left to a scheduler's taste.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.stock.virtual import StockCluster
from weir.gates import ALL_FEATURES

Document = dict[str, Any]
Both = tuple[StockCluster, ...]

NODES = ("n0", "n1", "n2")
KEYS = ("sla", "sla", "kernel")  # entries that meet on one key are what is hard
VALUES = ("0", "50", "500", "950", "960", "0950", "high", "1.2.3", "1.3.0", "2.0.0-rc.1")
EFFECTS = ("NoSchedule", "NoExecute", "NoExecute", "PreferNoSchedule")
VERSIONS = ("1.2.0", "1.2.3", "1.3.0", "2.0.0", "unknown")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
EXPRESSIONS = (
    "taint.key == 'sla' && taint.value != 'high'",
    "taint.effect == 'NoExecute'",
    "taint.key == 'kernel' && semver(taint.value).major() >= 1",
    "int(taint.value) > 100",
)
KINDS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}
#: What may happen, and how often.
STEPS = (
    *("pod",) * 3, "Deployment", "StatefulSet", "DaemonSet", "DaemonSet", "Job", "preferred", "volume",
    *("taint",) * 6, "label", "label", "cordon", "delete", "template",
)  # fmt: skip
FOR_EVER = {"weir.dev/run-seconds": "1000000"}
STEP_SECONDS = 6.0
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def toleration(chance: random.Random) -> Document:
    operator = chance.choice(("Gt", "Lt", "SemverGt", "SemverLt", "SemverEq", "CEL", "Equal", "Exists"))
    if operator == "CEL":
        found: Document = {"operator": "CEL", "value": chance.choice(EXPRESSIONS)}
        effect = "NoExecute"
    else:
        effect = chance.choice(("", "", "NoExecute", *EFFECTS))
        found = {"key": chance.choice(KEYS), "operator": operator}
        if effect:
            found["effect"] = effect
    if operator in ("Gt", "Lt"):
        found["value"] = chance.choice(("100", "900"))
    elif operator.startswith("Semver"):
        found["value"] = chance.choice(("1.2.3", "1.0.0"))
    elif operator == "Equal":
        found["value"] = chance.choice(VALUES)
    if effect == "NoExecute" and chance.random() < 0.5:
        found["tolerationSeconds"] = chance.choice((3, 4, 5, 8, 9, 10, 15, 16))  # never when a step ends
    return found


def requirement(chance: random.Random) -> Document:
    operator = chance.choice(("SemverGt", "SemverLt", "SemverEq"))
    return {"key": "version", "operator": operator, "values": [chance.choice(("1.2.3", "1.3.0"))]}


def pod_spec(chance: random.Random, *, pinned: bool = True) -> Document:
    spec: Document = {
        "containers": [{"name": "c", "image": "i"}],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [toleration(chance) for _ in range(chance.randint(1, 3))],
    }
    if pinned:
        spec["nodeSelector"] = {"kubernetes.io/hostname": chance.choice(NODES)}
    if chance.random() < 0.4:
        required = {"nodeSelectorTerms": [{"matchExpressions": [requirement(chance)]}]}
        spec["affinity"] = {"nodeAffinity": {REQUIRED: required}}
    return spec


def preferring(chance: random.Random) -> Document:
    """Return a pod that may go anywhere and likes nodes by their version, then in one order."""
    spec = pod_spec(chance, pinned=False)
    order = list(NODES)
    chance.shuffle(order)
    terms = [{"weight": 100, "preference": {"matchExpressions": [requirement(chance)]}}]
    for weight, node in zip((60, 25), order, strict=False):
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        terms.append({"weight": weight, "preference": {"matchExpressions": [here]}})
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity[PREFERRED] = terms
    return spec


def workload(kind: str, name: str, spec: Document) -> Document:
    labels = {"app": name}
    metadata = {"labels": labels, **({"annotations": FOR_EVER} if kind == "Job" else {})}
    template = {"metadata": metadata, "spec": spec}
    of_kind: dict[str, Document] = {
        "Deployment": {"replicas": 1},
        "StatefulSet": {"replicas": 2, "serviceName": name},
        "Job": {"backoffLimit": 6},
        "DaemonSet": {},
    }
    selector = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    return {
        "apiVersion": KINDS[kind],
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**selector, "template": template, **of_kind[kind]},
    }


def volume(name: str, needed: Document) -> tuple[Document, Document]:
    """Return a local volume that needs a version of its node, and the claim that has it."""
    amount, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    return (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": amount,
                "accessModes": modes,
                "storageClassName": "manual",
                "local": {"path": "/d"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [needed]}]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": modes,
                "storageClassName": "manual",
                "volumeName": name,
                "resources": {"requests": amount},
            },
        },
    )


class History:
    """One random history, lived twice."""

    def __init__(self, seed: int, steps: int) -> None:
        self._chance = random.Random(seed)
        self._steps, self._names = steps, 0
        self._pods: list[str] = []
        self._workloads: list[tuple[str, str]] = []
        self.told: list[str] = []

    def differences(self) -> list[str]:
        """Live through it; return what was different, with what had happened."""
        with StockCluster() as stock, StockCluster(install=False, gates=ALL_FEATURES) as native:
            both = (stock, native)
            before: tuple[set[str], set[str]] = (set(), set())
            for node in NODES:
                version = self._chance.choice(VERSIONS)
                for cluster in both:
                    cluster.node(node, version=version)
            for _ in range(self._steps):
                self._step(both)
                for cluster in both:
                    cluster.advance(STEP_SECONDS)
                lowered, natively = (seen(each, old) for each, old in zip(both, before, strict=True))
                if lowered != natively:
                    wrong = {key for key in lowered | natively if lowered.get(key) != natively.get(key)}
                    return [
                        f"{key}: {lowered.get(key)} natively {natively.get(key)}" for key in sorted(wrong)
                    ]
        return []

    def _step(self, both: Both) -> None:
        chance, what = self._chance, self._chance.choice(STEPS)
        if what == "taint":
            self._taint(both, chance.choice(NODES))
        elif what == "label":
            node, version = chance.choice(NODES), chance.choice(VERSIONS)
            self._tell(f"label {node} {version}")
            self._everywhere(
                both, lambda each: each.patch("Node", node, {"metadata": {"labels": {"version": version}}})
            )
        elif what == "cordon":
            node, cordoned = chance.choice(NODES), chance.random() < 0.5
            self._tell(f"cordon {node} {cordoned}")
            self._everywhere(
                both, lambda each: each.patch("Node", node, {"spec": {"unschedulable": cordoned}})
            )
        elif what == "delete" and self._pods:
            name = self._pods.pop(chance.randrange(len(self._pods)))
            self._tell(f"delete {name}")
            self._everywhere(both, lambda each: each.delete("Pod", name))
        elif what == "template" and self._workloads:
            self._edit(both, *chance.choice(self._workloads))
        elif what in KINDS:
            spec = pod_spec(chance, pinned=what != "DaemonSet")
            if what == "Job":
                spec["restartPolicy"] = "Never"  # and it never ends by itself: that is another question
            name = self._name(what.lower())
            if what in ("Deployment", "DaemonSet"):
                self._workloads.append((what, name))
            self._create(both, workload(what, name, spec), spec)
        elif what == "volume":
            self._bare_pod(both, self._with_volume(both))
        else:
            self._bare_pod(both, preferring(chance) if what == "preferred" else pod_spec(chance))

    def _taint(self, both: Both, node: str) -> None:
        chance = self._chance
        taints = {
            (chance.choice(KEYS), chance.choice(EFFECTS)): chance.choice(VALUES)
            for _ in range(chance.randint(0, 2))
        }
        if chance.random() < 0.1:
            taints[OUT_OF_SERVICE, "NoExecute"] = "nodeshutdown"
        self._tell(f"taint {node} {taints}")
        written = [(key, value, effect) for (key, effect), value in taints.items()]
        self._everywhere(both, lambda each: each.set_taints(node, *written))

    def _edit(self, both: Both, kind: str, name: str) -> None:
        """Give a workload another first toleration: a rollout on both sides."""
        entry = toleration(self._chance)
        self._tell(f"edit {kind} {name} {entry}")
        for cluster in both:
            found = entry if cluster.operators else natively_spelled(entry)
            patch = {"spec": {"template": {"spec": {"tolerations": [found]}}}}
            cluster.patch(kind, name, patch)

    def _with_volume(self, both: Both) -> Document:
        name, needed = self._name("volume"), requirement(self._chance)
        self._tell(f"volume {name} {needed}")
        for document in volume(name, needed):
            self._everywhere(both, lambda each, document=document: each.create(document))
        spec = pod_spec(self._chance)
        return {**spec, "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": name}}]}

    def _bare_pod(self, both: Both, spec: Document) -> None:
        name = self._name("pod")
        self._pods.append(name)
        metadata = {"name": name, "namespace": "default"}
        self._create(both, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, spec)

    # ── both sides ───────────────────────────────────────────────────────────────────────────────

    def _tell(self, text: str) -> None:
        self.told.append(text)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}-{self._names}"

    @staticmethod
    def _everywhere(both: Both, act: Callable[[StockCluster], Any]) -> None:
        for cluster in both:
            act(cluster)

    def _create(self, both: Both, document: Document, spec: Document) -> None:
        self._tell(f"create {document['kind']} {document['metadata']['name']} {spec}")
        for cluster in both:
            lowered = cluster.operators
            found = (
                spec["tolerations"] if lowered else [natively_spelled(entry) for entry in spec["tolerations"]]
            )
            cluster.create(_with_tolerations(document, spec, found))


def natively_spelled(entry: Document) -> Document:
    if entry["operator"] != "CEL":
        return entry
    rest = {name: value for name, value in entry.items() if name not in ("operator", "value")}
    return {"expression": entry["value"], **rest}


def _with_tolerations(document: Document, spec: Document, tolerations: list[Document]) -> Document:
    changed = {**spec, "tolerations": tolerations}
    if document["kind"] == "Pod":
        return {**document, "spec": changed}
    template = {**document["spec"]["template"], "spec": changed}
    return {**document, "spec": {**document["spec"], "template": template}}


def seen(cluster: StockCluster, before: set[str]) -> dict[str, list[str]]:
    """Return where the pods are: bare ones by name, those of a workload together; "" for one that waits.

    *before* has the pods of the step before: one that is not among them is marked, as its predecessor was evicted.
    """
    found: dict[str, list[str]] = {}
    now: set[str] = set()
    for pod in cluster.list("Pod", "default"):
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            continue
        key = (metadata.get("labels") or {}).get("app") or metadata["name"]
        phase = (pod.get("status") or {}).get("phase")
        ended = f" {phase}" if phase in ("Succeeded", "Failed") else ""
        now.add(metadata["uid"])
        again = "" if metadata["uid"] in before else " (new)"
        found.setdefault(key, []).append(pod["spec"].get("nodeName", "") + ended + again)
    before.clear()
    before.update(now)
    return {key: sorted(nodes) for key, nodes in found.items()}
