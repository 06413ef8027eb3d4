"""What the OpenAPI documents say of custom kinds; the expected parts are a real server's (v1.37.1)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.compat.customresources.world import definition, server

TEXT = {"type": "string"}
MORE = {"x-kubernetes-preserve-unknown-fields": True}
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
OWN = ["apiVersion", "kind", "metadata"]
GVK = {"x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Widget", "version": "v1"}]}


async def published(folder: Any, schema: dict[str, Any], **version: Any) -> tuple[dict[str, Any], ...]:
    """Return the schemas of a kind in versions 2 and 3, and of its list in version 2."""
    made = definition({})
    made["spec"]["versions"][0] |= {"schema": {"openAPIV3Schema": schema}, **version}
    async with server(folder) as found:
        await found.define(made)
        _, old = await found.ask("GET", "/openapi/v2")
        _, new = await found.ask("GET", "/openapi/v3/apis/example.com/v1")
        code, _ = await found.ask(
            "GET", "/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        )
        assert code == 200
    name = "com.example.v1.Widget"
    return old["definitions"][name], new["components"]["schemas"][name], old["definitions"][f"{name}List"]


@pytest.mark.parametrize(
    "more", [{}, {"description": "d", "properties": {"spec": {"type": "object", "properties": {"a": TEXT}}}}]
)
async def test_a_kind_that_keeps_unknown_fields_is_not_described_in_version_2(tmp_path, more):
    schema = {"type": "object", **MORE, **more}
    old, new, _ = await published(tmp_path, schema)
    assert old == {"type": "object", **GVK}
    assert sorted(new["properties"]) == sorted([*OWN, *more.get("properties", ())])
    assert {**new, "properties": None} == {**schema, "properties": None, **GVK}


#: Schemas of properties, and what version 2 says of them.
PROPERTIES = [
    (
        {"type": "object", **MORE, "properties": {"q": TEXT}, "required": ["q"]},
        {**MORE, "required": ["q"]},
    ),
    ({"type": "array", **MORE, "items": {"type": "object", **MORE}}, MORE),
    ({**MORE}, MORE),
    ({"type": "object", "nullable": True, "properties": {"b": TEXT}}, {}),
    ({"type": "array", "nullable": True, "items": TEXT}, {}),
    ({"type": "object", "nullable": True, "additionalProperties": TEXT}, {"additionalProperties": TEXT}),
    (
        {"type": "object", "additionalProperties": {**TEXT, "nullable": True}, "required": ["z"]},
        {"type": "object", "additionalProperties": {}},
    ),
    (
        {
            "type": "object",
            "required": ["n", "a"],
            "properties": {"a": TEXT, "n": {**TEXT, "nullable": True}},
        },
        {"type": "object", "required": ["a"], "properties": {"a": TEXT, "n": {}}},
    ),
    (
        {"type": "object", "required": ["n"], "properties": {"n": {**TEXT, "nullable": True}}},
        {"type": "object", "properties": {"n": {}}},
    ),
    (
        {
            "type": "integer",
            "default": 2,
            "not": {"maximum": 0},
            "x-kubernetes-validations": [{"rule": "self > 0"}],
        },
        {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
    ),
]


async def test_version_2_says_what_it_can(tmp_path):
    schemas = {f"case{number}": schema for number, (schema, _) in enumerate(PROPERTIES)}
    old, new, _ = await published(tmp_path, {"type": "object", "properties": schemas})
    for number, (schema, expected) in enumerate(PROPERTIES):
        assert old["properties"][f"case{number}"] == expected
        assert new["properties"][f"case{number}"] == schema


async def test_an_embedded_object_has_the_fields_of_every_object(tmp_path):
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    described = {"properties": {"spec": {"type": "object"}}, "required": ["kind"]}
    spec = {"closed": {**embedded, **described}, "open": {**embedded, **MORE}}
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    old, new, _ = await published(tmp_path, whole)
    closed, opened = (new["properties"]["spec"]["properties"][name] for name in ("closed", "open"))
    assert closed["required"] == opened["required"] == ["kind", "apiVersion"]
    assert sorted(closed["properties"]) == [*OWN, "spec"]
    assert sorted(opened["properties"]) == OWN
    assert closed["properties"]["metadata"]["allOf"] == [{"$ref": f"#/components/schemas/{META}"}]
    closed, opened = (old["properties"]["spec"]["properties"][name] for name in ("closed", "open"))
    assert closed["properties"]["metadata"]["$ref"] == f"#/definitions/{META}"
    assert opened == {"x-kubernetes-embedded-resource": True, **MORE}


async def test_selectable_fields_are_named(tmp_path):
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": TEXT}}}}
    for said in await published(tmp_path, whole, selectableFields=[{"jsonPath": ".spec.a"}]):
        assert said["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.a"}]
