"""On random clusters: pods kept as JSON with shared templates answer as pods whose documents were read whole."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.explain.workload import owned_pods
from weir.gates import ALL_FEATURES
from weir.inputs import cluster as inputs
from weir.objects import pod_reader
from weir.objects.core import Pod
from weir.world import World

WORKLOADS = ("ReplicaSet", "StatefulSet", "DaemonSet", "Deployment")


def cluster(rng: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes and other objects, and pods of a few workloads with everything that pods of one workload differ in."""
    others: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": {"zone": f"z{number % 2}"}},
            "spec": {
                "taints": rng.sample(
                    [{"key": "sla", "value": "950", "effect": "NoSchedule"}], rng.randrange(2)
                )
            },
            "status": {"allocatable": {"cpu": rng.choice(["2", "4"]), "memory": "8Gi", "pods": "9"}},
        }
        for number in range(rng.randrange(1, 5))
    ]
    pods = []
    for number in range(rng.randrange(1, 5)):
        spec, labels, kind = template(rng, number), {"app": f"a{number}"}, rng.choice(WORKLOADS)
        for replica in range(rng.randrange(5)):
            pods.append(pod(rng, f"a{number}-{replica}", spec, labels, kind))
    rng.shuffle(pods)
    return others, pods


def template(rng: random.Random, number: int) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": f"i{number}", "env": [{"name": "A", "value": "{},"}]}
    if rng.random() < 0.8:
        container["resources"] = {"requests": {"cpu": rng.choice(["500m", "1", 2, 0.5])}}
    if rng.random() < 0.3:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    spec: dict[str, Any] = {"containers": [container], "priority": rng.choice([0, 10, None])}
    own = {"labelSelector": {"matchLabels": {"app": f"a{number}"}}}
    if rng.random() < 0.3:
        part = rng.choice(["podAntiAffinity", "podAffinity"])
        required = [{**own, "topologyKey": "zone"}]
        spec["affinity"] = {part: {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if rng.random() < 0.3:
        spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**spread, **own}]
    if rng.random() < 0.4:
        spec["tolerations"] = [{"key": "sla", "operator": "Gt", "value": rng.choice(["900", "960"])}, None][
            : rng.choice([1, 1, 2])
        ]
    return spec


def pod(
    rng: random.Random, name: str, spec: dict[str, Any], labels: dict[str, Any], kind: str
) -> dict[str, Any]:
    token = f"kube-api-access-{rng.randrange(16**4, 16**5):05x}"
    spec = {
        **spec,
        "containers": [{**each, "volumeMounts": [{"name": token}]} for each in spec["containers"]],
    }
    volumes: list[dict[str, Any]] = [{"name": token, "projected": {"sources": []}}]
    volumes += rng.choices(
        [
            {"name": "d", "persistentVolumeClaim": {"claimName": name}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "g", "gcePersistentDisk": {"pdName": "shared"}},
        ],
        k=rng.choice([0, 0, 0, 1]),
    )
    status: dict[str, Any] = {"phase": rng.choice(["Running"] * 5 + ["Pending", "Succeeded", "Failed"])}
    if rng.random() < 0.5:
        status["startTime"] = f"2026-01-01T00:00:{rng.randrange(60):02d}Z"
        status["containerStatuses"] = [
            {"name": "c", "containerID": name, "allocatedResources": {"cpu": rng.choice(["1", "3"])}}
        ]
    if rng.random() < 0.2:
        status["nominatedNodeName"] = "n0"
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": rng.choice(["default", "default", None, "other"]),
        "uid": f"u-{name}",
        "labels": labels,
        "creationTimestamp": f"2026-01-01T00:00:{rng.randrange(60):02d}Z",
        "ownerReferences": [{"kind": kind, "name": name[:2], "uid": f"o-{name[:2]}", "controller": True}],
    }
    if rng.random() < 0.2:
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    node = {} if rng.random() < 0.2 else {"nodeName": rng.choice(["n0", "n1", "n2", "gone"])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "volumes": volumes, **node},
        "status": status,
    }


def in_snapshot(others: list[dict[str, Any]], pods: list[dict[str, Any]]) -> World:
    return World.of(others, pods=[json.dumps(each).encode() for each in pods])


@pytest.mark.parametrize("seed", range(60))
def test_a_snapshot_holds_and_answers_what_the_documents_do(seed):
    rng = random.Random(seed)
    others, pods = cluster(rng)
    plain, snapshot = World.of([*others, *pods]), in_snapshot(others, pods)
    assert dict(snapshot.pods) == dict(plain.pods)
    for entry in snapshot.pods.sources() if pods else ():
        metadata, spec, status = pod_reader._template_parts(pod_reader.read_pod(entry.source))
        assert entry.template == Pod(metadata=metadata, spec=spec, status=status)
    questions = [
        pod(rng, "new", template(rng, number), {"app": f"a{number}"}, "ReplicaSet") for number in (0, 9)
    ]
    for document in (*questions, *pods[:2]):
        bare = {
            **document,
            "spec": {name: value for name, value in document["spec"].items() if name != "nodeName"},
        }
        workload = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": document["metadata"]["name"][:2]},
            "spec": {
                "replicas": 3,
                "template": {"metadata": {"labels": {"app": "a0"}}, "spec": bare["spec"]},
            },
        }
        for asked in (Subject.of(bare), Subject.of(document, stored=True), Subject.of(workload)):
            afresh = World.of([*others, *pods])
            assert (
                explain(asked, snapshot, ALL_FEATURES).data() == explain(asked, afresh, ALL_FEATURES).data()
            )
        owner = Subject.of(
            {**workload, "kind": pods[0]["metadata"]["ownerReferences"][0]["kind"]} if pods else workload
        )
        assert list(owned_pods(owner, snapshot)) == list(owned_pods(owner, plain))
    changed = [each for number, each in enumerate(plain.pods.values()) if number % 3 == 0]
    added = [each for number, each in enumerate(plain.pods.values()) if number % 3 == 1]
    edited = [world.overlay(*added, without=changed) for world in (plain, snapshot)]
    assert dict(edited[0].pods) == dict(edited[1].pods)
    assert [edited[0].pods_on(name) for name in plain.nodes] == [
        edited[1].pods_on(name) for name in plain.nodes
    ]


WRONG = (
    {"spec": []},
    {"metadata": {"name": 5}},
    {"metadata": {}},
    {"metadata": None},
    {"metadata": {"name": "p", "labels": {"a": 1}}},
    {"metadata": {"name": "p", "ownerReferences": [None]}},
    {"metadata": {"name": "p", "ownerReferences": ["x"]}},
    {"apiVersion": 1},
    {"apiVersion": None},
    {"status": "Running"},
    {"spec": {"tolerations": {"key": "a"}}},
    {"spec": {"tolerations": [{"key": 7}]}},
    {"spec": {"tolerations": None, "containers": [None]}},
    {"spec": {"containers": [{"resources": {"requests": {"cpu": ["1"]}}}]}},
    {"spec": {"nodeName": 1}},
    {"spec": {"priority": "high"}},
    {"status": {"conditions": [{"type": None}, None]}},
)


@pytest.mark.parametrize("wrong", WRONG, ids=json.dumps)
def test_an_odd_pod_of_a_dump_is_read_or_refused_in_the_same_words(tmp_path, wrong):
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}, "spec": {"nodeName": "n"}}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [whole, {**whole, **wrong}]}))

    def read(stream: bool) -> object:
        files = [str(path)]
        try:
            held = (
                inputs._streamed(files, keep_gate=True)
                if stream
                else inputs.ClusterObjects.of(inputs._dumped(files), keep_gate=True, dumped=True)
            )
            return dict(held.world().pods)
        except inputs.CannotSay as error:
            return error.message

    assert read(stream=True) == read(stream=False)


def test_pods_of_one_workload_are_read_as_a_whole_once(monkeypatch):
    reads: list[Any] = []
    read = pod_reader.read_pod
    monkeypatch.setattr(pod_reader, "read_pod", lambda source: reads.append(source) or read(source))
    rng = random.Random(3)
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "tolerations": [{"key": "sla", "operator": "Exists"}],
    }
    sources = []
    for number in range(50):
        each = pod(rng, f"a0-{number}", spec, {"app": "a0"}, "ReplicaSet")
        each["metadata"].pop("deletionTimestamp", None)
        each["metadata"]["namespace"] = "default"
        each["spec"]["volumes"] = each["spec"]["volumes"][:1]
        each["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:{number:02d}Z"}
        sources.append(json.dumps(each).encode())
    pods = pod_reader.SnapshotPods.of(sources)
    assert (len(pods), len(reads), len({id(each.template) for each in pods.sources()})) == (50, 1, 1)


def test_pods_whose_json_never_repeats_are_tried_so_often_only(monkeypatch):
    monkeypatch.setattr(pod_reader, "_TRIED", 10)
    outlines: list[Any] = []
    decode = pod_reader._decode_outline
    monkeypatch.setattr(
        pod_reader, "_decode_outline", lambda source: outlines.append(source) or decode(source)
    )
    names = [f"p{number}" for number in range(50)]
    pods = pod_reader.SnapshotPods.of(
        json.dumps({"metadata": {"name": name}, "spec": {"containers": [{"env": name}]}}).encode()
        for name in names
    )
    assert (list(pods), len(outlines)) == ([f"default/{name}" for name in names], 10)
    assert len({id(each.template) for each in pods.sources()}) == 1


def test_workloads_whose_pods_come_by_turns_are_read_once_each(monkeypatch):
    reads: list[Any] = []
    read_pod = pod_reader.read_pod
    monkeypatch.setattr(pod_reader, "read_pod", lambda source: reads.append(source) or read_pod(source))
    workloads = 2500
    pods = pod_reader.SnapshotPods.of(
        json.dumps({"metadata": {"name": f"p{number}", "labels": {"app": f"a{number % workloads}"}}}).encode()
        for number in range(2 * workloads)
    )
    assert (len(pods), len(reads)) == (2 * workloads, workloads)


def test_pods_with_reported_resources_and_names_of_hosts_are_read_as_a_whole_once(monkeypatch):
    reads: list[Any] = []
    read = pod_reader.read_pod
    monkeypatch.setattr(pod_reader, "read_pod", lambda source: reads.append(source) or read(source))
    sources = []
    for number in range(20):
        status = {
            "phase": "Running",
            "startTime": f"2026-01-01T00:00:{number:02d}Z",
            "containerStatuses": [
                {"name": "c", "containerID": f"id-{number}", "allocatedResources": {"cpu": "1"}}
            ],
        }
        spec = {
            "containers": [{"name": "c"}],
            "hostname": f"web-{number}",
            "nodeName": f"n{number}",
            "nodeSelector": {"kubernetes.io/hostname": "n"},
        }
        sources.append(
            json.dumps({"metadata": {"name": f"web-{number}"}, "spec": spec, "status": status}).encode()
        )
    pods = pod_reader.SnapshotPods.of(sources)
    assert (len(pods), len(reads), len({id(each.template) for each in pods.sources()})) == (20, 1, 1)
    assert {each.node_name for each in pods.sources()} == {f"n{number}" for number in range(20)}


@pytest.mark.parametrize("name", ["nodeName", "hostname"])
def test_a_label_named_as_what_pods_differ_in_is_part_of_their_template(name):
    def source(value: str, **spec: Any) -> bytes:
        whole = {"metadata": {"name": value}, "spec": {**spec, "nodeSelector": {name: value}}}
        return json.dumps(whole).encode()

    for own in ({}, {name: "n"}):
        pods = pod_reader.SnapshotPods.of([source("a", **own), source("b", **own)])
        assert [each.template.spec.node_selector for each in pods.sources()] == [{name: "a"}, {name: "b"}]
