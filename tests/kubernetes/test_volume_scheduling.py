"""What the real kube-scheduler says of pods with volumes is what weir says."""

from __future__ import annotations

import asyncio

import pytest

from tests.kubernetes.programs import scheduler
from tests.kubernetes.real_server import real_server
from tests.kubernetes.test_scheduling import GATES, NODES, PODS, agree, outcome
from weir.client.http import connect
from weir.objects.core import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, read
from weir.objects.kinds import by_kind
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.plugins import volume_plugins
from weir.scheduler.preemption import preempt
from weir.scheduler.profile import ProfileArguments
from weir.scheduler.run import _unbound
from weir.scheduler.volumes import CSIDriver, CSINode, CSIStorageCapacity, Storage

CLAIMS, VOLUMES = by_kind("v1", "PersistentVolumeClaim"), by_kind("v1", "PersistentVolume")
CLASSES = by_kind("storage.k8s.io/v1", "StorageClass")
CSI_NODES, DRIVERS = by_kind("storage.k8s.io/v1", "CSINode"), by_kind("storage.k8s.io/v1", "CSIDriver")
CAPACITIES = by_kind("storage.k8s.io/v1", "CSIStorageCapacity")
PLACES = {
    VOLUMES: ("volumes", PersistentVolume),
    CLAIMS: ("claims", PersistentVolumeClaim),
    CLASSES: ("classes", StorageClass),
    CSI_NODES: ("csi_nodes", CSINode),
    DRIVERS: ("csi_drivers", CSIDriver),
    CAPACITIES: ("capacities", CSIStorageCapacity),
}
ZONE = "topology.kubernetes.io/zone"
DONE = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(name, storage_class="now", annotations=None, modes=("ReadWriteOnce",), size="1Gi", **spec):
    return CLAIMS, {"metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
                    "spec": {"storageClassName": storage_class, "accessModes": list(modes),
                             "resources": {"requests": {"storage": size}}, **spec}}  # fmt: skip


def volume(name, *expressions, labels=None, fields=None, source=None, storage_class="now", **spec):
    term = {"matchExpressions": list(expressions)} if expressions else {}
    term |= {"matchFields": [fields]} if fields else {}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if term else {}
    return VOLUMES, {"metadata": {"name": name, "labels": labels or {}},
                     "spec": {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"],
                              "capacity": {"storage": "5Gi"}, **(source or {"hostPath": {"path": "/x"}}), **affinity,
                              **spec}}  # fmt: skip


def storage_class(name, provisioner="kubernetes.io/no-provisioner", **more):
    return CLASSES, {"metadata": {"name": name}, "provisioner": provisioner,
                     "volumeBindingMode": "WaitForFirstConsumer", **more}  # fmt: skip


def on(*names):
    return {"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}


def csi(handle):
    return {"csi": {"driver": "csi.example", "volumeHandle": handle}}


def using(name, *claims, node=None):
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": volumes,
        **({"nodeName": node} if node else {}),
    }
    return PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


WAIT = storage_class("wait")
#: situation → what is there besides nodes n1 (zone a) and n2 (zone b); the pod uses every claim named d…
SITUATIONS = {
    "missing claim": [],
    "unbound, immediate": [claim("d")],
    "unbound, class unknown": [claim("d", "nobody-knows")],
    "volume elsewhere": [claim("d", annotations=DONE, volumeName="v"), volume("v", on("n9"))],
    "volume on one node": [claim("d", annotations=DONE, volumeName="v"), volume("v", on("n2"))],
    "volume of the wrong zone": [claim("d", annotations=DONE, volumeName="v"), volume("v", labels={ZONE: "c"})],
    "volume of one zone": [claim("d", annotations=DONE, volumeName="v"), volume("v", labels={ZONE: "b__c"})],
    "volume by a node's name": [
        claim("d", annotations=DONE, volumeName="v"),
        volume("v", fields={"key": "metadata.name", "operator": "In", "values": ["n9"]}),
    ],
    "volume gone": [claim("d", annotations=DONE, volumeName="v")],
    "volume named, not bound": [WAIT, claim("d", "wait", volumeName="v"), volume("v", storage_class="wait")],
    "nothing to bind": [WAIT, claim("d", "wait")],
    "volume too small": [WAIT, claim("d", "wait", size="9Gi"), volume("v", storage_class="wait")],
    "provisioned elsewhere": [
        storage_class("wait", "csi.example", allowedTopologies=[
            {"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]}]),
        claim("d", "wait"),
    ],
    "no capacity": [
        storage_class("wait", "csi.example"), claim("d", "wait"),
        (DRIVERS, {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}}),
        (CAPACITIES, {"metadata": {"name": "c", "namespace": "default"}, "storageClassName": "wait",
                      "capacity": "500Mi", "nodeTopology": {"matchLabels": {ZONE: "a"}}}),
    ],
    "selected node is another": [
        storage_class("wait", "csi.example"),
        claim("d", "wait", annotations={"volume.kubernetes.io/selected-node": "n9"}),
    ],
    "one pod only": [
        claim("d", annotations=DONE, volumeName="v", modes=["ReadWriteOncePod"]), volume("v"),
        using("holder", "d", node="n1"),
    ],
    "too many volumes": [
        *((CSI_NODES, {"metadata": {"name": n}, "spec": {"drivers": [
            {"name": "csi.example", "nodeID": n, "allocatable": {"count": 1}}]}}) for n in ("n1", "n2")),
        claim("d", annotations=DONE, volumeName="v"), volume("v", source=csi("v")),
        claim("e1", annotations=DONE, volumeName="w1"), volume("w1", source=csi("w1")),
        claim("e2", annotations=DONE, volumeName="w2"), volume("w2", source=csi("w2")),
        using("first", "e1", node="n1"), using("second", "e2", node="n2"),
    ],
}  # fmt: skip


def ours(nodes, stored, pending):
    storage = Storage()
    arguments = ProfileArguments(upstream_reasons=True)
    engine = Engine(GATES, arguments, volumes=volume_plugins(storage, GATES))
    for each in nodes:
        engine.table.put_node(read(Node, each))
    pods = {}
    for kind, each in stored:
        if kind is PODS:
            view = read(Pod, each)
            pods[view.key] = view
            engine.table.add_pod(view.key, engine.classes.of(_unbound(view)), view.spec.node_name)
        else:
            place, view_type = PLACES[kind]
            storage.put(place, None, read(view_type, each))
    wanted = read(Pod, pending)
    answer = engine.place(wanted)
    if isinstance(answer, Placement):
        scores = engine.scores(wanted)
        return {name for name, score in scores.items() if score == max(scores.values())}, ""
    if engine.profile.loses_claim_state(answer):
        return set(), f"{answer.message} not found"
    return set(), f"{answer.message} {preempt(engine, wanted, answer, pods).message}"


async def play(client, nodes, name, things, pause):
    """Return what both schedulers do with a pod in the situation made of *things*; all of it is removed again."""
    stored = []
    try:
        for kind, document in things:
            stored.append((kind, await client.create(kind, document)))
        await asyncio.sleep(pause)
        pending = await client.create(PODS, using(name, "d")[1])
        stored.append((PODS, pending))
        return await outcome(client, pending, 2), ours(nodes, stored[:-1], pending)
    finally:
        for kind, each in reversed(stored):
            metadata = each["metadata"]
            namespace = metadata.get("namespace", "")
            if metadata.get("finalizers"):
                await client.patch(kind, metadata["name"], {"metadata": {"finalizers": None}}, namespace)
            await client.delete(kind, metadata["name"], namespace, grace_period_seconds=0)


async def compare(kubeconfig):
    client = connect(kubeconfig)
    found = {}
    try:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        nodes = [
            await client.create(NODES, {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone}},
                "status": {"capacity": amounts, "allocatable": amounts}})
            for name, zone in (("n1", "a"), ("n2", "b"))
        ]  # fmt: skip
        for number, (situation, things) in enumerate(SITUATIONS.items()):
            # A difference that goes away with more patience was a watch that had not caught up.
            for pause in (0.3, 2.0, 5.0):
                found[situation] = await play(client, nodes, f"pod-{number}-{pause:g}", things, pause)
                await asyncio.sleep(pause - 0.1)
                if agree(*found[situation]):
                    break
        return found
    finally:
        await client.close()


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("volumes")
    with real_server(folder) as kubeconfig, scheduler(folder, kubeconfig):
        return asyncio.run(compare(kubeconfig))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_both_schedulers_say_the_same(answers, situation):
    (node, said), (best, words) = answers[situation]
    assert (words, node in best) == (said, bool(node))
