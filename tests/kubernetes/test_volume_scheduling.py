"""What the real kube-scheduler says of pods with volumes is what weir says."""

from __future__ import annotations

import asyncio

import pytest

from tests.kubernetes.programs import scheduler
from tests.kubernetes.real_server import real_server
from tests.kubernetes.test_scheduling import GATES, NODES, PODS, agree, outcome, unbound
from weir.client.http import connect
from weir.objects.core import Node, Pod, read
from weir.objects.kinds import by_kind
from weir.objects.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.preemption import preempt
from weir.scheduler.profile_arguments import ProfileArguments
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


def using(name, *claims, node=None, disks=()):
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    volumes += [{"name": f"disk-{i}", **disk} for i, disk in enumerate(disks)]
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": volumes,
        **({"nodeName": node} if node else {}),
    }
    return PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def limits(*names, **drivers):
    """Return CSINodes that attach so many volumes of each driver."""
    entries = [
        {"name": n.replace("_", "."), "nodeID": "id", "allocatable": {"count": c}} for n, c in drivers.items()
    ]
    return [(CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": entries}}) for name in names]


def pool(name, capacity, zone, **more):
    return CAPACITIES, {"metadata": {"name": name, "namespace": "default"}, "storageClassName": "wait",
                        "capacity": capacity, "nodeTopology": {"matchLabels": {ZONE: zone}}, **more}  # fmt: skip


def driver(**spec):
    return DRIVERS, {"metadata": {"name": "csi.example"}, "spec": spec}


#: A disk that the pod names itself, without a claim.
DISK = object()
EBS, CINDER = ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {"cinder": {"volumeID": "c-1"}})
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
    "the roomier volume scores": [
        WAIT, claim("d", "wait"), volume("v1", on("n1"), storage_class="wait", capacity={"storage": "2Gi"}),
        volume("v2", on("n2"), storage_class="wait", capacity={"storage": "50Gi"}),
    ],
    "the roomier pool scores": [
        storage_class("wait", "csi.example"), claim("d", "wait"), driver(storageCapacity=True),
        pool("a", "20Gi", "a"), pool("b", "2Gi", "b"),
    ],
    "a volume goes before a pool": [
        storage_class("wait", "csi.example"), claim("d", "wait"), claim("d2", "wait", size="2Gi"),
        driver(storageCapacity=True), pool("a", "4Gi", "a"), pool("b", "40Gi", "b"),
        volume("v1", on("n1"), storage_class="wait", capacity={"storage": "1Gi"}),
    ],
    "the largest volume of a pool": [
        storage_class("wait", "csi.example"), claim("d", "wait", size="3Gi"), driver(storageCapacity=True),
        pool("a", "20Gi", "a", maximumVolumeSize="2Gi"), pool("b", "4Gi", "b"),
    ],
    "two claims refused for two reasons": [
        storage_class("wait", "csi.example", allowedTopologies=[
            {"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]),
        storage_class("local"), claim("d", "wait", size="9Gi"), claim("d2", "local"), driver(storageCapacity=True),
    ],
    "a claim at work and one without space": [
        storage_class("wait", "csi.example"), claim("d", "wait"), driver(storageCapacity=True), pool("b", "2Gi", "b"),
        claim("d2", "wait", size="5Gi", annotations={"volume.kubernetes.io/selected-node": "n2"}),
    ],
    "bound elsewhere and nothing to bind": [
        WAIT, claim("d", annotations=DONE, volumeName="v"), volume("v", on("n1")), claim("d2", "wait"),
    ],
    "driver not installed": [
        storage_class("wait", "csi.example"), claim("d", "wait"), driver(preventPodSchedulingIfMissing=True),
        *limits("n2", other_example=3),
    ],
    "driver installed on one node": [
        storage_class("wait", "csi.example"), claim("d", "wait"), driver(preventPodSchedulingIfMissing=True),
        *limits("n2", csi_example=3),
    ],
    "an old disk takes the place of a claim": [
        *limits("n1", "n2", ebs_csi_aws_com=1), using("first", disks=[EBS], node="n1"),
        using("second", disks=[{"awsElasticBlockStore": {"volumeID": "vol-2"}}], node="n2"),
        claim("d", annotations=DONE, volumeName="v"),
        volume("v", source={"awsElasticBlockStore": {"volumeID": "aws://zone/vol-3"}}),
    ],
    "the same old disk counts once": [
        *limits("n1", "n2", cinder_csi_openstack_org=1), using("first", disks=[CINDER], node="n1"),
        using("second", disks=[{"cinder": {"volumeID": "c-2"}}], node="n2"), (DISK, CINDER),
    ],
    "an old class counts for its driver": [
        storage_class("wait", "kubernetes.io/gce-pd"), *limits("n1", "n2", pd_csi_storage_gke_io=0), claim("d", "wait"),
    ],
    "a class whose driver is not counted": [
        storage_class("wait", "kubernetes.io/azure-file"), claim("d", "wait"),
        *limits("n1", "n2", file_csi_azure_com=0),
    ],
    "a disk in use": [
        using("first", disks=[EBS], node="n1"), using("second", disks=[EBS], node="n2"), (DISK, EBS),
    ],
    "a disk that both only read": [
        using("first", disks=[{"gcePersistentDisk": {"pdName": "x", "readOnly": True}}], node="n1"),
        using("second", disks=[{"gcePersistentDisk": {"pdName": "x"}}], node="n2"),
        (DISK, {"gcePersistentDisk": {"pdName": "x", "readOnly": True}}),
    ],
}  # fmt: skip


def ours(nodes, stored, pending):
    storage = Storage()
    arguments = ProfileArguments(upstream_reasons=True)
    engine = Engine(GATES, arguments, storage=storage)
    for each in nodes:
        engine.table.put_node(read(Node, each))
    pods = {}
    for kind, each in stored:
        if kind is PODS:
            view = read(Pod, each)
            pods[view.key] = view
            engine.table.add_pod(view.key, engine.classes.of(unbound(view)), view.spec.node_name)
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
    disks = [document for kind, document in things if kind is DISK]
    claims = [each["metadata"]["name"] for kind, each in things if kind is CLAIMS]
    mine = [each for each in claims if each.startswith("d")] or ([] if disks else ["d"])
    try:
        for kind, document in things:
            if kind is not DISK:
                stored.append((kind, await client.create(kind, document)))
        await asyncio.sleep(pause)
        pending = await client.create(PODS, using(name, *mine, disks=disks)[1])
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
