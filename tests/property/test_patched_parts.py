"""A patch that is read by the parts it names leaves, answers and refuses what reading the whole object does.

Two servers get the same requests in the same order, with the same clock and the same randomness; one of them reads
whole objects only.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.apiserver.auth.authn import MASTERS, proven
from weir.apiserver.build import build
from weir.apiserver.options import Options, open_store
from weir.apiserver.patches import partial_patch
from weir.apiserver.registry import patching
from weir.apiserver.transport.http import Request
from weir.clock import VirtualClock
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind

JSON, MERGE = "application/json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
DEVICES = "/apis/resource.k8s.io/v1"


def workload(kind: str, **spec: object) -> dict[str, object]:
    """Return a workload of apps/v1 with one container."""
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    whole = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "o"}, "spec": whole}


SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "c"}}]}}
OBJECTS = {
    "/api/v1/namespaces/default/pods": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "o", "labels": {"a": "b"}},
        "spec": {
            "containers": [
                {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "g"}]}}
            ],
            "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}],
        },
    },
    f"{DEVICES}/namespaces/default/resourceclaims": {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "o", "finalizers": ["a/b"]},
        "spec": SPEC,
    },
    "/api/v1/nodes": {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "o"},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "/api/v1/namespaces/default/configmaps": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "o"},
        "data": {"a": "1"},
    },
    "/apis/apps/v1/namespaces/default/deployments": workload("Deployment"),
    "/apis/apps/v1/namespaces/default/replicasets": workload("ReplicaSet"),
    "/apis/apps/v1/namespaces/default/statefulsets": workload("StatefulSet", serviceName="s"),
    f"{DEVICES}/devicetaintrules": {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "o"},
        "spec": {"deviceSelector": {"driver": "d.example"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    },
}


def some(**found: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=found)


def mostly(good: list[Any], bad: list[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 39).flatmap(lambda dice: st.sampled_from(good if dice else bad))


texts = mostly(["", "x", "node-1", None], ["UPPER", 5, {}, []])
labels = mostly([None, {"a": "c"}, {"a": None, "d": "e"}, {}], [{"a": 5}, {"b c": "x"}, "x", []])
metadata = some(
    labels=labels,
    annotations=labels,
    finalizers=mostly([None, [], ["a/b"], ["a/b", "c/d"]], [["a"], "a", [None]]),
    ownerReferences=mostly([None, [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]], [[{}]]),
    name=mostly(["o"], ["other", None, 5]),
    namespace=mostly(["default"], ["other", None]),
    uid=mostly([None], ["x", ""]),
    resourceVersion=mostly([None, ""], ["1", "x"]),
    generation=mostly([None, 0], [7]),
    creationTimestamp=mostly([None], ["2026-01-01T00:00:00Z", "x"]),
    deletionTimestamp=mostly([None], ["2026-01-01T00:00:00Z"]),
    managedFields=mostly([None], [[], [{}], [{"manager": "m", "operation": "Update"}]]),
    bogus=mostly([None], [1]),
)
condition = mostly(
    [
        {"type": "Ready", "status": "False"},
        {"type": "PodScheduled", "status": "False", "reason": "r", "lastProbeTime": None},
        {"type": "Other", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Ready", "$patch": "delete"},
    ],
    [{"type": 5}, {}, None, {"type": "a b", "status": "x"}, {"type": "a", "bogus": 1}],
)
consumer = mostly(
    [{"resource": "pods", "name": "p", "uid": "u"}, {"resource": "pods", "name": "q", "uid": "v"}],
    [{}, {"resource": "pods", "name": "p"}, {"uid": "u", "$patch": "delete"}],
)
result = mostly(
    [{"request": "gpu", "driver": "d.example", "pool": "p", "device": "d"}],
    [{"request": "other"}, {"request": "gpu", "driver": "D", "pool": "p", "device": "d"}],
)
conditions = st.lists(condition, max_size=2) | st.none()
taint = mostly([{"key": "k", "effect": "NoSchedule"}, {"key": "l", "effect": "NoExecute"}], [{"key": "k"}, 5])
amounts = mostly([None, {"cpu": "1000m"}, {"cpu": 2, "memory": "1.5Gi"}, {"cpu": "0.1u"}], [{"cpu": "x"}])
PODS, CLAIMS, NODES, MAPS, DEPLOYMENTS, REPLICASETS, STATEFULSETS, RULES = OBJECTS
PARTS: dict[str, tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]] = {  # spec and status by path
    PODS: (
        some(activeDeadlineSeconds=st.sampled_from([None, 5]), nodeName=mostly([""], ["n"])),
        some(
            nominatedNodeName=texts,
            phase=mostly(["Pending", "Running"], [None, 5]),
            qosClass=mostly(["Burstable"], ["Guaranteed", None]),
            podIP=mostly(["10.0.0.1", None], ["x", "10.0.0.2"]),
            podIPs=mostly([[{"ip": "10.0.0.1"}], [], None], [[{"ip": "x"}]]),
            conditions=conditions,
            resourceClaimStatuses=mostly(
                [None, [], [{"name": "g", "resourceClaimName": "x"}]],
                [[{"name": "g"}, {"name": "g"}], [{"name": "no"}]],
            ),
        ),
    ),
    CLAIMS: (
        some(devices=st.sampled_from([None, SPEC["devices"], {"requests": []}])),
        some(
            reservedFor=st.lists(consumer, max_size=2) | st.none(),
            allocation=st.none() | some(devices=some(results=st.lists(result, max_size=2))),
        ),
    ),
    NODES: (
        some(
            taints=st.lists(taint, max_size=2) | st.none(),
            podCIDR=st.sampled_from([None, "10.0.0.0/24"]),
            unschedulable=mostly([True, None], ["yes"]),
        ),
        some(
            capacity=amounts,
            allocatable=amounts,
            conditions=conditions,
            images=st.just([{"names": ["a"], "sizeBytes": 5}]),
        ),
    ),
    MAPS: (st.just({}), st.just({})),
    **dict.fromkeys(
        (DEPLOYMENTS, REPLICASETS, STATEFULSETS),
        (
            some(replicas=st.sampled_from([None, 2])),
            some(
                replicas=mostly([None, 0, 3], ["3"]),
                readyReplicas=mostly([None, 0, 2], [9]),
                observedGeneration=st.sampled_from([None, 1]),
                terminatingReplicas=st.sampled_from([None, 0, 1]),
                conditions=conditions,
            ),
        ),
    ),
    RULES: (some(taint=taint), some(conditions=conditions)),
}
oddities = mostly(
    [{}],
    [
        {"bogus": 1},
        {"kind": "Secret"},
        {"kind": None},
        {"apiVersion": "v2"},
        {"metadata": None},
        {"metadata": 5},
        {"status": None},
        {"status": 5},
        {"$patch": "replace"},
        {"$retainKeys": ["metadata"]},
        {"data": {"a": "2", "b": None}},
        {"data": 5},
    ],
)
twists = mostly(
    [lambda text: text],
    [
        lambda text: text.replace('"status": {', '"status": {"phase": "Running", "phase": "Pending", ', 1),
        lambda text: text.replace('"metadata": {', '"metadata": {}, "metadata": {', 1),
        lambda text: text[:-1],
        lambda text: f"[{text}]",
    ],
)


@st.composite
def patches(draw: Any) -> tuple[str, str, str, str, bytes]:
    path = draw(st.sampled_from(list(OBJECTS)))
    media = draw(st.sampled_from([MERGE, MERGE, STRATEGIC, APPLY]))
    endpoint = draw(st.sampled_from(["", "/status", "/status"]))
    spec, status = PARTS[path]
    usual = some(metadata=metadata, status=status) if endpoint else some(metadata=metadata, spec=spec)
    document = {**draw(mostly([usual], [some(spec=spec, status=status)]).flatmap(lambda one: one))}
    document |= draw(oddities)
    query = draw(st.sampled_from(["", "", "", "fieldValidation=Strict", "fieldManager=me", "dryRun=All"]))
    if media == APPLY:
        known = {name: OBJECTS[path][name] for name in ("apiVersion", "kind")}
        given = document.get("metadata")
        named = (
            {"metadata": {"name": "o", **given}} if isinstance(given, dict) else {"metadata": {"name": "o"}}
        )
        document = {**known, **named, **{k: v for k, v in document.items() if k != "metadata"}}
        manager = draw(st.sampled_from(["one", "two", "kubectl"]))
        query = f"fieldManager={manager}&force={draw(st.sampled_from(['true', 'false']))}"
    text = draw(twists)(json.dumps(document))
    return f"{path}/o{endpoint}", media, query, draw(st.sampled_from(["a/1", "b/1"])), text.encode()


class Admin:
    """Lets everybody in as the cluster's administrator."""

    def authenticate(self, request: Request) -> Any:
        return proven("admin", (MASTERS,))


@contextmanager
def whole_objects_only() -> Any:
    with (
        mock.patch.object(patching, "patched_parts", return_value=None),
        mock.patch.object(patching, "applied_parts", return_value=None),
    ):
        yield


async def answers(requests: list[tuple[str, str, str, str, bytes]]) -> list[Any]:
    clock = VirtualClock()
    randomness = random.Random(1).randbytes
    options = Options(
        Path(),
        store="memory",
        insecure=True,
        gates=ALL_FEATURES,
        authorization_modes=("AlwaysAllow",),  # no roles to make before the first request
        random_bytes=randomness,
    )
    running = await build(options, await open_store(options, clock), clock)
    server = running.server
    server._security = server._security._replace(authenticator=Admin())
    made = [("POST", path, JSON, "", "make/1", json.dumps(body).encode()) for path, body in OBJECTS.items()]
    out: list[Any] = []
    for method, path, media, query, agent, body in [*made, *(("PATCH", *request) for request in requests)]:
        await clock.advance(timedelta(seconds=1))
        headers = {b"content-type": media.encode(), b"user-agent": agent.encode()}
        answer = await server.handle(Request(method, path, query, headers, body))
        assert (method, answer.code) == ("PATCH", answer.code) or answer.code == 201
        warned = [value for name, value in answer.headers or () if name == b"Warning"]
        out.append((answer.code, json.loads(answer.body), warned))
    stored = [(item.key, json.loads(item.value)) for item in server.verbs.store.range("/registry/").items]
    return [*out, stored]


@settings(max_examples=tries(20, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(patches(), min_size=1, max_size=12))
def test_reading_only_the_parts_a_patch_names_changes_no_answer(
    requests: list[tuple[str, str, str, str, bytes]],
) -> None:
    by_parts = asyncio.run(answers(requests))
    with whole_objects_only():
        assert by_parts == asyncio.run(answers(requests))


POD = by_kind("v1", "Pod")
STORED = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "o", "namespace": "default", "uid": "u", "managedFields": [{"manager": "m"}]},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Pending"},
}


def named(body: bytes) -> Any:
    now = "2026-01-01T00:00:00Z"
    return partial_patch.patched_parts(STORED, body, POD, patching._merge, "default", "o", now)


def test_what_a_patch_does_not_name_is_not_read_again() -> None:
    found = named(b'{"status":{"nominatedNodeName":"n"}}')
    assert found["spec"] is STORED["spec"] and found["status"] == {
        "phase": "Pending",
        "nominatedNodeName": "n",
    }


def test_the_stored_object_stays_as_it_is() -> None:
    before = json.dumps(STORED)
    named(b'{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Running"}}')
    assert json.dumps(STORED) == before


def test_a_patch_that_names_more_than_the_status_has_the_whole_object_read() -> None:
    assert named(b'{"spec":{"priority":1},"status":{"phase":"Running"}}') is None
