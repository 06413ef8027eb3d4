"""A pod that is bound by changing its text is stored, or refused, exactly as one that is decoded and changed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir import errors
from weir.apiserver.registry import codec
from weir.apiserver.registry.binding import POD, assign, assigned, read
from weir.apiserver.transport.bodies import decode
from weir.apiserver.transport.http import Request
from weir.objects.kinds import by_kind

NOW = "2026-01-02T03:04:05Z"
UID = "0b7a3b5e-0000-4000-8000-000000000001"
BINDING = {
    "kind": "Binding",
    "apiVersion": "v1",
    "metadata": {"name": "web", "namespace": "default", "uid": UID},
    "target": {"kind": "Node", "name": "node-1"},
}
CREATED: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "default", "uid": UID, "labels": {"status": '},"status":{'}},
    "spec": {"containers": [{"name": "c", "image": "a"}]},
    "status": {"phase": "Pending", "qosClass": "BestEffort"},
}
SCHEDULED = {"type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": NOW}


def stored(pod: dict[str, Any]) -> bytes:
    """Return a pod as it lies in the store, with a version."""
    value = codec.encode(pod)
    return value[: codec.STAMP] + b"7" + value[codec.STAMP :]


def plainly(value: bytes, binding: dict[str, Any]) -> bytes | str:
    pod = codec.decode(POD, value)
    try:
        assign(pod, binding, "/registry/pods/default/web", NOW)
    except errors.Conflict as refused:
        return refused.message
    return codec.encode(pod, POD)


texts = st.sampled_from(
    ["a", "ü", '"', "\\", '},"status":', '"conditions":', "%b", '"nodeName":"x"', "\u2028", ""]
)
pods = st.builds(
    lambda metadata, spec, status, order: {
        part: {"metadata": metadata, "spec": spec, "status": status}[part] for part in order
    },
    st.fixed_dictionaries(
        {"name": st.just("web"), "uid": st.sampled_from([UID, UID, UID, "another"])},
        optional={
            "labels": st.dictionaries(texts, texts, max_size=2),
            "deletionTimestamp": st.sampled_from([NOW, "", None]),
            "finalizers": st.lists(texts, max_size=1),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "containers": st.lists(st.fixed_dictionaries({"name": texts, "image": texts}), max_size=1),
            "nodeName": st.sampled_from(["", "node-2", None]),
            "schedulingGates": st.sampled_from([[], [{"name": "wait"}], None]),
            "hostname": texts,
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "phase": st.sampled_from(["Pending", "Running"]),
            "message": texts,
            "nominatedNodeName": texts | st.sampled_from(["node-1", "n"]),
            "allocatedResources": st.dictionaries(st.sampled_from(["nominatedNodeName", "cpu"]), texts),
            "conditions": st.sampled_from([[], [SCHEDULED], [{"type": "Ready", "status": "True"}]]),
        },
    ),
    st.permutations(["metadata", "spec", "status"]),
)
bindings = st.builds(
    lambda metadata, node: {**BINDING, "metadata": metadata, "target": {"kind": "Node", "name": node}},
    st.fixed_dictionaries(
        {"name": st.just("web"), "namespace": st.just("default")},
        optional={
            "uid": st.sampled_from([UID, UID, "another", ""]),
            "labels": st.just({"a": "b"}),
            "annotations": st.just({"a": "b"}),
            "resourceVersion": st.sampled_from(["7", "8"]),
        },
    ),
    texts,
)


@settings(max_examples=tries(400, 4000), deadline=None)
@given(pods, st.just(BINDING) | bindings)
def test_a_text_is_bound_as_a_document_is(pod: dict[str, Any], binding: dict[str, Any]) -> None:
    value = stored(pod)
    made = assigned(value, binding, NOW)
    assert made is None or made == plainly(value, binding)


@pytest.mark.parametrize(
    "status", [{}, {"nominatedNodeName": "node-1", "startTime": NOW}, {"nominatedNodeName": "b"}]
)
def test_a_pod_as_it_was_created_or_nominated_is_bound_as_text(status: dict[str, Any]) -> None:
    value = stored({**CREATED, "status": {**CREATED["status"], **status}})
    assert assigned(value, BINDING, NOW) == plainly(value, BINDING)


SENT = [
    json.dumps(BINDING).encode(),
    json.dumps(BINDING, separators=(",", ":")).encode(),
    b'{"target":{"name":"n","kind":"Node"},"metadata":{"uid":"u","namespace":"d","name":"a\\u00fc"},'
    b'"apiVersion":"v1","kind":"Binding"}',
]


@pytest.mark.parametrize("body", SENT)
def test_what_schedulers_send_is_read_as_any_body_is(body: bytes) -> None:
    document, warnings = decode(Request("POST", "/", body=body), by_kind("v1", "Binding"), "Strict")
    assert read(body) == document and not warnings


ODD = [
    SENT[1].replace(b'"name":"web"', b'"name":"web","name":"web"'),
    SENT[1].replace(b'"name":"web"', b'"name":"web","bogus":1'),
    SENT[1].replace(b'"kind":"Binding"', b'"kind":"Pod"'),
    SENT[1].replace(b'"v1"', b'"v2"'),
    SENT[1].replace(b'"uid":', b'"labels":'),
    SENT[1].replace(b'"node-1"', b"1"),
    SENT[1].replace(b'"node-1"', b"null"),
    SENT[1][:-1],
    b"[" * 5000,
    b"",
]


@pytest.mark.parametrize("body", ODD)
def test_what_needs_a_second_look_is_not_read_here(body: bytes) -> None:
    assert read(body) is None


def test_every_part_that_is_looked_at_is_one_of_the_pods_stored() -> None:
    """What is stored is JSON as msgspec writes it, so that text means what it says."""
    value = stored(CREATED)
    assert msgspec.json.encode(msgspec.json.decode(value)) == value
