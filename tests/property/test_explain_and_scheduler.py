"""Explain and the scheduler judge alike: the same nodes fit, and each refusal is given in the same words."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given

from tests.property.test_explain import gates, pods, slow, worlds
from tests.property.test_scheduler import NAMESPACES, random_node, random_pod
from weir.explain.admission import Admission
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES, Gates
from weir.objects.core import Namespace, Node, Pod, read
from weir.objects.declared_features import RESTART_ALL
from weir.scheduler.cycle import Engine, Placement
from weir.scheduler.framework import Diagnosis, NoNodes, PluginError
from weir.scheduler.pod_class import SeatedPods
from weir.scheduler.volumes import Storage
from weir.world import World


def refusals(pod: Pod, world: World, gates: Gates) -> dict[str, tuple[str, ...]]:
    """What the scheduler's own filters say, by node."""
    engine = Engine(gates)
    for node in world.nodes.values():
        engine.table.put_node(node)
    for other in world.pods.values():
        if other.spec.node_name in world.nodes:
            engine.assume(other.key, other, other.spec.node_name)
    return {name: status.reasons for name, status in engine.statuses(pod).items()}


@given(pods(), worlds(), gates)
@slow
def test_the_same_nodes_refuse_in_the_same_words(document, world, gates):
    subject = Subject.of(document)
    pod = Admission(world, gates).admit(subject).pod
    if (
        pod.spec.node_name
        or pod.spec.volumes
        or any(n.status.allocatable is None for n in world.nodes.values())
    ):
        return  # the kubelet's question, another plugin's, and what only explain forgives
    answer = explain(subject, world, gates)
    deciding = {v.node: tuple(reason.message() for reason in v.deciding) for v in answer.nodes if v.reasons}
    assert deciding == refusals(pod, world, gates)


@pytest.mark.parametrize("seed", range(80))
def test_on_busy_clusters_with_spread_and_pod_affinity_the_same_nodes_fit(seed):
    rng = random.Random(seed)
    nodes = [random_node(rng, f"n{number}") for number in range(rng.randrange(1, 9))]
    there = []
    for number in range(rng.randrange(8)):
        pod = random_pod(rng, f"there-{number}", True)
        spec = msgspec.structs.replace(pod.spec, node_name=rng.choice(nodes).name)
        there.append(msgspec.structs.replace(pod, spec=spec))
    spaces = [
        read(Namespace, {"metadata": {"name": name, "labels": labels}}) for name, labels in NAMESPACES.items()
    ]
    world = World().overlay(*nodes, *there, *spaces)
    pod = random_pod(rng, "new", True)
    engine = Engine(ALL_FEATURES, namespaces=NAMESPACES)
    for node in nodes:
        engine.table.put_node(node)
    for other in there:
        unbound = msgspec.structs.replace(other.spec, node_name="")
        engine.assume(other.key, msgspec.structs.replace(other, spec=unbound), other.spec.node_name)
    refused = {name: status.reasons for name, status in engine.statuses(pod).items()}
    answer = explain(Subject.of(msgspec.to_builtins(pod) | {"kind": "Pod"}, stored=True), world, ALL_FEATURES)
    assert {v.node: tuple(r.message() for r in v.deciding) for v in answer.nodes if v.reasons} == refused


@pytest.mark.parametrize("seed", range(20))
def test_pods_loaded_at_once_count_like_pods_added_one_by_one(seed):
    rng = random.Random(seed)
    node = random_node(rng, "n")
    pods = [random_pod(rng, f"p{number}", True) for number in range(rng.randrange(9))]
    one_by_one, at_once = Engine(ALL_FEATURES), Engine(ALL_FEATURES)
    for engine in (one_by_one, at_once):
        engine.table.put_node(node)
    for pod in pods:
        one_by_one.assume(pod.key, pod, node.name)
    at_once.table.load_pods(node.name, SeatedPods({pod.key: at_once.classes.of(pod) for pod in pods}))
    asked = random_pod(rng, "new", True)
    assert (at_once.statuses(asked), at_once.table.state.tolist()) == (
        one_by_one.statuses(asked),
        one_by_one.table.state.tolist(),
    )


# ── what a snapshot without claims still says: disks, features, preferences, resizes ─────────────

DISKS = (
    {"gcePersistentDisk": {"pdName": "d"}},
    {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "d"}},
    {"iscsi": {"iqn": "d", "targetPortal": "p", "lun": 0}},
    {"rbd": {"monitors": ["m"], "image": "d"}},
)


def odd_pod(rng: random.Random, name: str) -> dict[str, Any]:
    """A pod that names disks, needs features, prefers what may be unreadable and is perhaps being resized."""
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": rng.choice(["1", "2"])}}}
    if rng.random() < 0.3:
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
        container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    status: dict[str, Any] = {"phase": "Pending"}
    if rng.random() < 0.3:
        status["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": rng.choice(["1", "3"])}}]
    disks = rng.sample(DISKS, rng.choice([0, 0, 1, 2]))
    spec: dict[str, Any] = {
        "containers": [container],
        "volumes": [{"name": f"v{number}", **disk} for number, disk in enumerate(disks)],
    }
    if rng.random() < 0.4:
        asked = {"key": "size", "operator": "Gt", "values": [rng.choice(["5", "many"])]}
        terms = [{"weight": 1, "preference": {"matchExpressions": [asked]}}]
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def placed(engine: Engine, pod: Pod) -> Placement | str:
    """Return where the engine puts *pod*, or why nowhere."""
    try:
        answer = engine.place(pod)
    except (NoNodes, PluginError) as nothing:
        return str(nothing)
    return answer.message if isinstance(answer, Diagnosis) else answer


@pytest.mark.parametrize("seed", range(150))
def test_disks_features_preferences_and_resizes_are_judged_as_the_scheduler_judges_them(seed):
    rng = random.Random(seed)
    engine = Engine(ALL_FEATURES, storage=Storage())
    documents = []
    for number in range(rng.randrange(1, 5)):
        amounts = {"cpu": rng.choice(["3", "8"]), "memory": "8Gi", "pods": "9"}
        features = rng.choice([[], [RESTART_ALL], [RESTART_ALL, "Other"]])
        status = {"allocatable": amounts, "declaredFeatures": features}
        documents.append({"kind": "Node", "metadata": {"name": f"n{number}"}, "status": status})
        engine.table.put_node(read(Node, documents[-1]))
    for number in range(rng.randrange(5)):
        there = odd_pod(rng, f"there-{number}")
        home = f"n{rng.randrange(len(engine.table))}"
        engine.assume(f"default/there-{number}", read(Pod, there), home)
        documents.append({**there, "spec": {**there["spec"], "nodeName": home}})
    asked = odd_pod(rng, "new")
    answer = explain(Subject.of(asked, stored=True), World.of(documents), ALL_FEATURES)
    found = placed(engine, read(Pod, asked))
    refused = {name: status.reasons for name, status in engine.statuses(read(Pod, asked)).items()}
    broken = "PreScore" in found if isinstance(found, str) else False
    assert (
        {v.node: tuple(r.message() for r in v.deciding) for v in answer.nodes if v.reasons},
        answer.fits,
        answer.attempt.message if broken else "",
    ) == (refused, isinstance(found, Placement), found if broken else "")
