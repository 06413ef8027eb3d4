"""`weir explain` beside a real scheduler: the same verdicts, the same nodes and words, and fixes that bind.

Random clusters with taints, room, ports, affinity, spread, claims, CSI limits, runtime classes, priorities, limit
ranges and nominated pods are made on a real API server. Each pod is explained from its manifest and a snapshot of the
cluster, then created; what the real scheduler does is held against the answer. Where a change of the pod is proposed,
it is made, and the pod has to be bound to one of the nodes the answer names.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass

import pytest

from tests.kubernetes import random_clusters as rc
from tests.kubernetes.programs import scheduler
from tests.kubernetes.real_server import real_server
from tests.kubernetes.test_scheduling import outcome
from weir.client.http import connect
from weir.client.snapshot import CREATION, DEVICES, PLACEMENT, snapshot
from weir.errors import ApiError, Forbidden, Invalid, NotFound
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import Gates
from weir.objects.kinds import by_kind
from weir.world import World

CASES = int(os.environ.get("WEIR_EXPLAIN_CASES", "300"))
SEED = int(os.environ.get("WEIR_EXPLAIN_SEED", "1"))
MANY_NODES, MANY_CASES = 150, 24
GATES = Gates({"TaintTolerationComparisonOperators": True, "TaintTolerationCEL": False})
PODS, NODES = by_kind("v1", "Pod"), by_kind("v1", "Node")
CLAIMS, VOLUMES = by_kind("v1", "PersistentVolumeClaim"), by_kind("v1", "PersistentVolume")
CLASSES, CSI_NODES = by_kind("storage.k8s.io/v1", "StorageClass"), by_kind("storage.k8s.io/v1", "CSINode")
RANGES, SPACES = by_kind("v1", "LimitRange"), by_kind("v1", "Namespace")
PRIORITIES, RUNTIMES = (
    by_kind("scheduling.k8s.io/v1", "PriorityClass"),
    by_kind("node.k8s.io/v1", "RuntimeClass"),
)
SLICES = by_kind("resource.k8s.io/v1", "ResourceSlice")
DEVICE_CLASSES = by_kind("resource.k8s.io/v1", "DeviceClass")
DEVICE_CLAIMS = by_kind("resource.k8s.io/v1", "ResourceClaim")
DRIVER, DEVICE_DRIVER = "csi.example.com", "gpu.example.com"
#: The server of these tests runs without the ServiceAccount plugin: accounts are not read.
KINDS = tuple(kind for kind in (*PLACEMENT, *DEVICES, *CREATION) if kind != "ServiceAccount")


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with real_server(tmp_path_factory.mktemp("explain")) as made:
        yield made


def asked(rng, number, names):
    """Return a pod that uses much of what decides."""
    made = (rc.greedy if rng.random() < 0.3 else rc.pod)(rng, f"new-{number}", names)
    spec = made["spec"]
    made["metadata"]["namespace"] = "x"
    if rng.random() < 0.15:
        spec["hostNetwork"] = True
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container.pop("ports", None)
        spec["containers"][0]["ports"] = [{"containerPort": rng.choice([80, 81, 82])}]
    if rng.random() < 0.2:
        claim = rng.choice(["held", "held-too", "nope", "waits"])
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    if rng.random() < 0.15:
        spec["priorityClassName"] = rng.choice(["low", "high", "hgh"])
    if rng.random() < 0.1:
        spec["runtimeClassName"] = rng.choice(["heavy", "heavie"])
    if rng.random() < 0.2:
        spec["resourceClaims"] = [
            {"name": "gpus", "resourceClaimName": rng.choice(["gpus", "gpus", "no-claim"])}
        ]
    made["spec"].pop("schedulerName", None)
    return {"apiVersion": "v1", "kind": "Pod", **made}


class Arena:
    """One real cluster, emptied between cases."""

    def __init__(self, client):
        self.client, self._made = client, []

    def asked(self, rng, number, names):
        """Return the pod of a case."""
        return asked(rng, number, names)

    async def make(self, kind, document, status=None):
        made = await self.client.create(kind, document)
        metadata = made["metadata"]
        self._made.append((kind, metadata["name"], metadata.get("namespace", "")))
        if status is not None:
            made = await self.client.patch(
                kind,
                metadata["name"],
                {"status": status},
                metadata.get("namespace", ""),
                subresource="status",
            )
        return made

    async def storage(self, rng, names):
        if rng.random() < 0.5:
            return
        term = {"matchExpressions": [{"key": rc.ZONE, "operator": "In", "values": [rng.choice("abc")]}]}
        for number, claim in enumerate(["held", "held-too"]):
            csi = {"driver": DRIVER, "volumeHandle": f"h-{claim}"}
            spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi,
                    "storageClassName": "fast", "claimRef": {"namespace": "x", "name": claim}}  # fmt: skip
            if number == 0:
                spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
            await self.make(VOLUMES, {"metadata": {"name": f"pv-{claim}"}, "spec": spec}, {"phase": "Bound"})
            about = {
                "name": claim,
                "namespace": "x",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            }
            wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                      "storageClassName": "fast", "volumeName": f"pv-{claim}"}  # fmt: skip
            await self.make(CLAIMS, {"metadata": about, "spec": wanted}, {"phase": "Bound"})
        for name in names:
            if rng.random() < 0.6:
                driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": rng.choice([0, 1, 5])}}
                await self.make(CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": [driver]}})

    async def devices(self, rng, names):
        for name in names:
            count = rng.randrange(4)
            devices = [
                {"name": f"gpu-{index}", "attributes": {"size": {"int": rng.randrange(3)}}}
                for index in range(count)
            ]
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DEVICE_DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            await self.make(SLICES, {"metadata": {"name": name}, "spec": spec})
        wanted = {"deviceClassName": rng.choice(["gpu", "gpu", "gpu", "gpux"]), "count": rng.randrange(1, 4)}
        if rng.random() < 0.4:
            chosen = f'device.attributes["{DEVICE_DRIVER}"].size > {rng.randrange(2)}'
            wanted["selectors"] = [{"cel": {"expression": chosen}}]
        requests = [{"name": "gpus", "exactly": wanted}]
        metadata = {"name": "gpus", "namespace": "x"}
        await self.make(DEVICE_CLAIMS, {"metadata": metadata, "spec": {"devices": {"requests": requests}}})

    async def build(self, rng, number, size=0):
        """Make a cluster of *size* nodes, or of a few; return their names."""
        busy = rng.random() < 0.5
        names = [f"c{number}-n{index}" for index in range(size or rng.randrange(1, 6))]
        for name in names:
            await self.make(NODES, rc.node(rng, name, busy))
        if rng.random() < 0.2:
            limit = {"type": "Container", "defaultRequest": {"cpu": rng.choice(["200m", "900m"])}}
            await self.make(
                RANGES, {"metadata": {"name": "l", "namespace": "x"}, "spec": {"limits": [limit]}}
            )
        await self.storage(rng, names)
        await self.devices(rng, names)
        for index in range(rng.randrange(4, 10) if busy else rng.randrange(6)):
            there = rc.resident(rng, f"there-{number}-{index}", names, busy)
            await self.make(PODS, there, rc.running(rng, there))
        if rng.random() < 0.15:
            rival = {"metadata": {"name": f"rival-{number}", "namespace": "x"},
                     "spec": {"schedulerName": "nobody", "priorityClassName": "high", "containers": [
                         {"name": "c", "image": "i", "resources": {"requests": {"cpu": "800m"}}}]}}  # fmt: skip
            await self.make(PODS, rival, {"nominatedNodeName": rng.choice(names)})
        return names

    async def clear(self):
        made, self._made = self._made, []
        for kind, name, namespace in reversed(made):
            with suppress(ApiError):
                await self.client.delete(kind, name, namespace, grace_period_seconds=0)
                if kind in (VOLUMES, CLAIMS, DEVICE_CLAIMS):
                    await self.client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)


async def decided(arena, pod, nodes):
    """Return (node, words) of the real scheduler, or ("", what the API server refused it with)."""
    try:
        made = await arena.make(PODS, pod)
    except (Forbidden, Invalid) as error:
        return "", f"refused: {error.message}"
    try:
        return await outcome(arena.client, made, nodes, 20.0)
    except TimeoutError:
        metadata = made["metadata"]
        now = await arena.client.find(PODS, metadata["name"], metadata["namespace"])
        raise AssertionError(f"no answer to {metadata['name']}: {now}") from None


@dataclass
class Played:
    """What one case showed."""

    kind: str = ""  #: fits, words, refused, held; "": the server does not take the cluster
    false_fit: object = None
    other: object = None
    fixed: bool = False
    unbound: object = None

    @property
    def agrees(self):
        return self.false_fit is None and self.other is None and self.unbound is None


async def play(arena, seed, number, pause, there=()):
    """Return what case *number* shows, on the nodes *there* or a cluster of its own.

    *pause* lets the scheduler's watches catch up.
    """
    rng, client = random.Random(f"{seed}/{number}"), arena.client
    try:
        names = there or await arena.build(rng, number)
        pod = arena.asked(rng, number, names)
        await asyncio.sleep(pause)
        held = await snapshot(client, KINDS)
        answer = explain(
            Subject(deepcopy(pod), "Pod", strict=True), World.of(held.documents, held.listed), GATES
        )
        if not answer.attempt.message and "device-claim" in {reason.kind for reason in answer.blockers}:
            return Played("held")  # PreEnqueue: the real one writes nothing either
        found = compared(answer, *await decided(arena, deepcopy(pod), len(names)))
        if answer.fix and all(edit.side == "pod" for edit in answer.fix.edits):
            changed = deepcopy(dict(answer.fix.after))
            changed["metadata"]["name"] = f"fixed-{number}"
            with suppress(NotFound):
                await client.delete(PODS, f"new-{number}", "x", grace_period_seconds=0)
            await asyncio.sleep(pause)
            bound, why = await decided(arena, changed, len(names))
            found.fixed = True
            if bound not in answer.fix.nodes:
                found.unbound = (bound, why, [edit.say() for edit in answer.fix.edits])
        return found
    except Invalid:
        return Played()
    finally:
        await arena.clear()


def compared(answer, real, said):
    """Return how the answer and what really happened compare."""
    if said.startswith("refused: "):
        return Played("refused", false_fit=said if answer.fits else None)
    if real:
        agrees = answer.fits and real in answer.fitting
        return Played("fits", other=None if agrees else (real, str(answer)))
    if answer.fits:
        return Played("words", false_fit=said)
    same = anonymous(answer.attempt.upstream) == anonymous(said)
    return Played("words", other=None if same else (said, answer.attempt.upstream))


def anonymous(said):
    """Return a failure of a plugin without the device: which node's fails first is chance. Other words stay."""
    return re.sub(r"device \S+/\S+/\S+", "device", said) if said.startswith("running ") else said


async def play_all(arena, cases, seed, there=()):
    """Return what every case showed; one that differs is played again with more patience."""
    found = {}
    for number in range(cases):
        for pause in (0.05, 0.5):
            found[number] = await play(arena, seed, number, pause, there)
            if found[number].agrees:
                break
    return found


async def compare(kubeconfig, cases, seed):
    client = connect(kubeconfig)
    try:
        for name, labels in rc.NAMESPACES.items():
            await client.create(SPACES, {"metadata": {"name": name, "labels": labels}})
        for name, value in rc.PRIORITIES.items():
            await client.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
        await client.create(RUNTIMES, rc.OVERHEAD)
        await client.create(CLASSES, {"metadata": {"name": "fast"}, "provisioner": DRIVER,
                                      "volumeBindingMode": "WaitForFirstConsumer"})  # fmt: skip
        await client.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}})
        few = await play_all(Arena(client), cases, seed)
        return few, await compare_many(client, seed)
    finally:
        await client.close()


class ManyNodes(Arena):
    """Asks for pods on a cluster that stays; every other one is too large for any node."""

    def asked(self, rng, number, names):
        made = super().asked(rng, number, names)
        made["spec"].pop(
            "resourceClaims", None
        )  # an allocation would outlive its pod: nobody takes it back here
        if number % 2:
            made["spec"].pop("resources", None)
            made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
        return made


async def compare_many(client, seed):
    """Return what cases on more nodes show than the real scheduler looks at once enough of them fit (100)."""
    cluster = Arena(client)
    try:
        names = await cluster.build(random.Random(f"{seed}/many"), "many", MANY_NODES)
        return await play_all(ManyNodes(client), MANY_CASES, f"{seed}/many", names)
    finally:
        await cluster.clear()


@pytest.fixture(scope="module")
def played(kubeconfig, tmp_path_factory):
    """What the cases on few nodes show, and what those on many do."""
    with scheduler(tmp_path_factory.mktemp("scheduler"), kubeconfig):
        return asyncio.run(compare(kubeconfig, CASES, SEED))


def test_explain_says_what_a_real_scheduler_does_and_its_fixes_bind(played):
    few, _ = played
    kinds = Counter(one.kind for one in few.values())
    assert {number: one.false_fit for number, one in few.items() if one.false_fit is not None} == {}
    assert {number: one.other for number, one in few.items() if one.other is not None} == {}
    assert min(kinds["fits"], kinds["words"]) > CASES // 6 and kinds["refused"] > CASES // 40
    fixes = [one for one in few.values() if one.fixed]
    unbound = [one.unbound for one in fixes if one.unbound is not None]
    assert len(fixes) > CASES // 8 and len(unbound) <= len(fixes) // 20, unbound


def test_explain_counts_every_node_of_a_cluster_of_which_a_real_scheduler_looks_at_some(played):
    """Where none fits the real one has looked at all of them: its counts by reason are those of the answer."""
    _, many = played
    assert {number: one for number, one in many.items() if not one.agrees} == {}
    kinds = Counter(one.kind for one in many.values())
    assert min(kinds["fits"], kinds["words"]) > MANY_CASES // 6, kinds
