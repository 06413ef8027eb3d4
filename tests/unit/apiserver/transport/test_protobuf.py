"""Protobuf bodies: read as the JSON their writer meant, and written as Kubernetes writes them.

`tests/vectors/protobuf.json` has a document of each kind and what Kubernetes' own serializer makes of it.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.objects.documents import documents
from weir.apiserver.transport.protobuf import event_frame, is_written, to_bytes, to_document
from weir.errors import ApiError, BadRequest
from weir.objects import schema
from weir.objects.document import decode
from weir.objects.kinds import KINDS

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "protobuf.json").read_text())
WRITTEN = [
    kind
    for kind in KINDS
    if kind.stored
    and is_written(kind.api_version, kind.kind)
    and schema.find_root(kind.api_version, kind.kind)
]


def varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | int | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_a_pod_reads_with_lists_maps_and_inlined_sources():
    container = field(1, "c") + field(2, "img") + field(6, field(3, 8080)) + field(16, 0)
    resources = field(2, field(1, "cpu") + field(2, field(1, "100m")))
    volume = field(1, "v") + field(2, field(2, b""))
    spec = field(1, volume) + field(2, container + field(8, resources)) + field(21, 0)
    document = to_document(body("v1", "Pod", field(1, field(1, "web")) + field(2, spec)))
    assert document == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web"},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "name": "c",
                    "image": "img",
                    "ports": [{"containerPort": 8080}],
                    "resources": {"requests": {"cpu": "100m"}},
                }
            ],
            "automountServiceAccountToken": False,
        },
    }


@pytest.mark.parametrize(
    ("api_version", "kind", "raw", "found"),
    [
        (
            "discovery.k8s.io/v1", "EndpointSlice", field(2, field(2, field(1, 0) + field(3, 1))),
            {"endpoints": [{"conditions": {"ready": False, "terminating": True}}]},
        ),
        (
            "resource.k8s.io/v1", "ResourceClaim", field(2, field(1, field(3, field(2, field(1, field(1, "d")))))),
            {"spec": {"devices": {"config": [{"opaque": {"driver": "d"}}]}}},
        ),
        (
            "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", field(2, field(1, "w")),
            {"webhooks": [{"name": "w"}]},
        ),
        ("policy/v1", "PodDisruptionBudget", field(2, field(2, b"")), {"spec": {"selector": {}}}),
        (
            "resource.k8s.io/v1beta1", "DeviceClass", field(1, field(1, "gpu")),
            {"metadata": {"name": "gpu"}},
        ),
    ],
)  # fmt: skip
def test_messages_whose_names_and_pointers_are_easily_mistaken(api_version, kind, raw, found):
    document = to_document(body(api_version, kind, raw))
    assert document == {"kind": kind, "apiVersion": api_version, **found}


def test_an_explicit_zero_behind_a_pointer_is_kept():
    options = to_document(body("v1", "DeleteOptions", field(1, 0)))
    assert options["gracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (-62_135_596_798, 0, "0001-01-01T00:00:02.000000Z"),
        (-62_135_596_800, 1000, "0001-01-01T00:00:00.000001Z"),
        (0, 0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000, 5000, "2023-11-14T22:13:20.000005Z"),
    ],
)
def test_times_of_any_year_are_read(seconds, nanos, text):
    raw = field(2, field(4, field(1, seconds) + field(2, nanos)))
    assert to_document(body("coordination.k8s.io/v1", "Lease", raw))["spec"]["renewTime"] == text


@pytest.mark.parametrize("time", [b"", field(1, -62_135_596_800) + field(2, 0)])
def test_the_zero_time_is_none(time):
    spec = to_document(body("coordination.k8s.io/v1", "Lease", field(2, field(1, "me") + field(4, time))))[
        "spec"
    ]
    assert spec.get("renewTime") is None


@pytest.mark.parametrize("text", [b"", b"{}", b"k8s\0\xff", b"k8s\0\x0a\x7f"])
def test_bytes_that_are_no_message_are_a_bad_request(text):
    with pytest.raises(BadRequest):
        to_document(text)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_otherwise(noise):
    with suppress(BadRequest):
        assert to_document(body("v1", "Pod", noise))["kind"] == "Pod"


TEXT = field(5, "string")


@pytest.mark.parametrize(
    "sent, read",
    [
        (field(24, field(1, TEXT)), {"items": {"type": "string"}}),
        (field(24, field(2, TEXT) + field(2, b"")), {"items": [{"type": "string"}, {}]}),
        (field(30, field(1, 0)), {"additionalProperties": False}),
        (field(30, field(1, 1)), {"additionalProperties": True}),
        (field(30, field(1, 1) + field(2, TEXT)), {"additionalProperties": {"type": "string"}}),
        (field(32, field(1, "a") + field(2, field(2, "b"))), {"dependencies": {"a": ["b"]}}),
        (field(32, field(1, "a") + field(2, field(1, TEXT))), {"dependencies": {"a": {"type": "string"}}}),
        (field(8, field(1, '{"a":[1]}')), {"default": {"a": [1]}}),
        (field(20, field(1, '"a"')) + field(20, field(1, "null")), {"enum": ["a", None]}),
        (field(29, field(1, "a") + field(2, TEXT)), {"properties": {"a": {"type": "string"}}}),
    ],
)
def test_the_schema_of_a_definition_is_read(sent, read):
    version = field(1, "v1") + field(4, field(1, sent))
    document = to_document(
        body("apiextensions.k8s.io/v1", "CustomResourceDefinition", field(2, field(7, version)))
    )
    assert document["spec"]["versions"] == [{"name": "v1", "schema": {"openAPIV3Schema": read}}]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["document"]["kind"])
def test_documents_are_written_as_kubernetes_writes_them(vector):
    assert to_bytes(vector["document"]) == base64.b64decode(vector["message"])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["document"]["kind"])
def test_what_kubernetes_writes_is_read_without_loss(vector):
    message = base64.b64decode(vector["message"])
    read = to_document(message)
    assert (read["kind"], to_bytes(read)) == (vector["document"]["kind"], message)


@given(st.data())
def test_what_is_written_is_read_again(data):
    kind = data.draw(st.sampled_from(WRITTEN))
    drawn = data.draw(documents(schema.find_root(kind.api_version, kind.kind).name))
    with suppress(ApiError):
        document, _ = decode(
            json.dumps({**drawn, "kind": kind.kind, "apiVersion": kind.api_version}).encode(), kind
        )
        written = to_bytes(document)
        assert to_bytes(to_document(written)) == written


def test_every_stored_kind_but_the_dialect_is_written():
    assert {kind.version for kind in KINDS if kind.stored and kind not in WRITTEN} <= {"v1alpha4"}


def test_numbers_of_any_size_are_written_and_read():
    for number in (-(1 << 31), -1, 0, 127, 128, 1 << 40, (1 << 63) - 1):
        job = {"kind": "Pod", "apiVersion": "v1", "spec": {"activeDeadlineSeconds": number}}
        assert to_document(to_bytes(job))["spec"]["activeDeadlineSeconds"] == number


def test_a_frame_is_a_length_a_type_and_an_object():
    body = b"k8s\0" + b"x" * 300
    raw = field(1, "MODIFIED") + field(2, field(1, body))
    assert event_frame("MODIFIED", body) == len(raw).to_bytes(4, "big") + raw


def test_kinds_without_messages_are_not_written():
    assert to_bytes({"kind": "Lamp", "apiVersion": "example.com/v1"}) is None
    assert to_bytes({"kind": "Deployment", "apiVersion": "apps.example.com/v1"}) is None
