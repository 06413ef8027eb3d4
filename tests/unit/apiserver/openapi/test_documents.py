"""The OpenAPI documents hold what kubectl looks for in them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from weir.apiserver.openapi import documents
from weir.objects.kinds import KINDS, RESOURCE_METRICS


@cache
def document(path: str) -> dict[str, Any]:
    body = documents.v3(path)
    assert body is not None
    found: dict[str, Any] = json.loads(body)
    return found


DESCRIBED = [kind for kind in KINDS if kind.plural]


@cache
def document_2() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(documents.v2())
    return found


def paths() -> list[str]:
    return list(documents.v3_index()["paths"])


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(references(item) for item in value))
    return set()


def test_the_index_has_every_served_group_version_with_a_hash() -> None:
    served = {f"apis/{k.group}/{k.version}" if k.group else f"api/{k.version}" for k in DESCRIBED}
    urls = {path: documents.v3_index()["paths"][path]["serverRelativeURL"] for path in served}
    assert all(url.startswith(f"/openapi/v3/{path}?hash=") for path, url in urls.items())


def test_an_unknown_document_is_none() -> None:
    assert documents.v3("apis/nope/v1") is None


@pytest.mark.parametrize("path", paths())
def test_every_reference_leads_somewhere(path: str) -> None:
    schemas = document(path)["components"]["schemas"]
    assert {ref.rpartition("/")[2] for ref in references(document(path))} <= set(schemas)


def test_every_reference_of_version_2_leads_somewhere() -> None:
    definitions = document_2()["definitions"]
    assert {ref.rpartition("/")[2] for ref in references(document_2())} <= set(definitions)


def test_tolerations_are_explained_with_the_added_field() -> None:
    toleration = document("api/v1")["components"]["schemas"]["io.k8s.api.core.v1.Toleration"]["properties"]
    assert (toleration["expression"]["type"], "CEL" in toleration["expression"]["description"]) == (
        "string",
        True,
    )


def test_containers_carry_what_apply_needs() -> None:
    spec = document("api/v1")["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"][
        "containers"
    ]
    extensions = {key: value for key, value in spec.items() if key.startswith("x-")}
    assert extensions == {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }


def test_a_patch_names_its_kind_its_types_and_field_validation() -> None:
    patch = document("apis/apps/v1")["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"][
        "patch"
    ]
    assert (
        patch["x-kubernetes-group-version-kind"],
        "application/strategic-merge-patch+json" in patch["requestBody"]["content"],
        "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]},
    ) == ({"group": "apps", "kind": "Deployment", "version": "v1"}, True, True)


def test_operation_ids_are_unique() -> None:
    found = [
        operation["operationId"]
        for item in document_2()["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict)
    ]
    assert len(found) == len(set(found))


def test_every_kind_can_be_found_by_its_group_version_kind() -> None:
    known = {
        (entry["group"], entry["version"], entry["kind"])
        for item in document_2()["definitions"].values()
        for entry in item.get("x-kubernetes-group-version-kind", ())
    }
    assert {(k.group, k.version, k.kind) for k in DESCRIBED} <= known


def read(data: bytes) -> list[tuple[int, bytes]]:
    """Return the length-delimited fields of a protobuf message (all the outer messages have no others)."""
    out, at = [], 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        tag = varint()
        assert tag & 7 == 2
        length = varint()
        out.append((tag >> 3, data[at : at + length]))
        at += length
    return out


def test_the_binary_document_holds_the_same_definitions_and_paths() -> None:
    top = dict(read(documents.v2_protobuf()))
    definitions = {dict(read(named))[1].decode() for _, named in read(top[9])}
    operations = {dict(read(named))[1].decode() for _, named in read(top[8])}
    assert (definitions, operations) == (set(document_2()["definitions"]), set(document_2()["paths"]))


def test_documents_are_built_once() -> None:
    assert documents.v3("api/v1") is documents.v3("api/v1")


@pytest.mark.parametrize("group", ["resource.k8s.io", RESOURCE_METRICS])
def test_a_group_that_is_not_served_is_not_described(group: str) -> None:
    off = frozenset({group})
    index, document = documents.v3_index(off)["paths"], json.loads(documents.v2(off))
    told = [*index, *document["paths"]]
    assert [path for path in told if group in path] == []


METRICS = "io.k8s.metrics.pkg.apis.metrics.v1beta1."
METRICS_PATHS = {
    f"/apis/metrics.k8s.io/v1beta1/{place}"
    for place in (
        "nodes",
        "nodes/{name}",
        "pods",
        "namespaces/{namespace}/pods",
        "namespaces/{namespace}/pods/{name}",
    )
}


@pytest.mark.parametrize("version", [2, 3])
def test_metrics_are_described_as_metrics_server_does(version: int) -> None:
    whole = document_2() if version == 2 else document("apis/metrics.k8s.io/v1beta1")
    schemas = whole["definitions"] if version == 2 else whole["components"]["schemas"]
    told = {name.removeprefix(METRICS): item for name, item in schemas.items() if name.startswith(METRICS)}
    fields = {
        name: (sorted(item["properties"]), item.get("required", []))
        for name, item in told.items()
        if not name.endswith("List")
    }
    common = ["apiVersion", "kind", "metadata", "timestamp", "window"]
    assert fields == {
        "ContainerMetrics": (["name", "usage"], ["name", "usage"]),
        "NodeMetrics": (sorted([*common, "usage"]), ["timestamp", "window", "usage"]),
        "PodMetrics": (sorted([*common, "containers"]), ["timestamp", "window", "containers"]),
    }
    assert [name for name, item in told.items() if not item.get("description")] == []
    methods = {
        (path, name) for path, item in whole["paths"].items() if path in METRICS_PATHS for name in item
    }
    assert methods == {(path, name) for path in METRICS_PATHS for name in ("get", "parameters")}


def test_metrics_cannot_be_watched_so_no_list_of_them_is_a_stream() -> None:
    paths = document("apis/metrics.k8s.io/v1beta1")["paths"]
    answered = paths["/apis/metrics.k8s.io/v1beta1/nodes"]["get"]["responses"]["200"]["content"]
    nodes = document("api/v1")["paths"]["/api/v1/nodes"]["get"]["responses"]["200"]["content"]
    assert (
        [kind for kind in answered if "watch" in kind],
        [kind for kind in nodes if "watch" in kind],
    ) == ([], ["application/json;stream=watch"])
