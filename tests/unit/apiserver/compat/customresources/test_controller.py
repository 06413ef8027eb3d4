"""Claims about the registration of kinds by stored definitions."""

import pytest

from tests.unit.apiserver.compat.customresources.world import CRDS, WIDGETS, definition, server, widget

# ── definitions on a server in this process: which kinds join and leave, and what is read and written of them ──
# Whole answers are held against a real server's in tests/kubernetes/test_same_custom_resources.py.


SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 3},
        "name": {"type": "string", "maxLength": 5},
        "rows": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}, "value": {"type": "integer", "maximum": 5}},
            },
        },
    },
}
MERGE = "application/merge-patch+json"


@pytest.fixture
async def world(tmp_path):
    async with server(tmp_path) as found:
        await found.define(definition(SPEC))
        yield found


async def test_a_definition_makes_a_kind_that_is_discovered(world):
    code, listed = await world.ask("GET", "/apis/example.com/v1")
    assert code == 200
    assert [one["name"] for one in listed["resources"]] == ["widgets"]
    _, groups = await world.ask("GET", "/apis")
    assert groups["groups"][-1]["name"] == "example.com"
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    _, whole = await world.ask("GET", "/apis", accept=aggregated)
    assert whole["items"][-1]["versions"][0]["resources"][0]["responseKind"]["kind"] == "Widget"


async def test_openapi_describes_it(world):
    _, index = await world.ask("GET", "/openapi/v3")
    assert "apis/example.com/v1" in index["paths"]
    _, document = await world.ask("GET", "/openapi/v3/apis/example.com/v1")
    model = document["components"]["schemas"]["com.example.v1.Widget"]
    assert model["properties"]["spec"]["properties"]["size"]["minimum"] == 1
    assert model["properties"]["metadata"]["description"].startswith("Standard object's metadata. ")
    assert "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}" in document["paths"]
    _, old = await world.ask("GET", "/openapi/v2")
    assert "com.example.v1.WidgetList" in old["definitions"]


async def test_an_object_is_pruned_and_defaulted(world):
    code, made = await world.ask("POST", WIDGETS, widget("a", name="n", bogus=1))
    assert code == 201
    assert made["spec"] == {"name": "n", "size": 3}
    assert made["metadata"]["generation"] == 1


async def test_defaults_of_today_are_read_with_what_was_stored(world):
    await world.ask("POST", WIDGETS, widget("a"))
    more = {**SPEC, "properties": {"mode": {"type": "string", "default": "Fast"}}}
    patch = [
        {
            "op": "replace",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            "value": more,
        }
    ]
    code, _ = await world.ask("PATCH", f"{CRDS}/widgets.example.com", patch, "application/json-patch+json")
    assert code == 200
    _, found = await world.ask("GET", f"{WIDGETS}/a")
    assert found["spec"] == {"mode": "Fast"}


async def test_an_update_counts_and_keeps_what_was_wrong_already(world):
    _, made = await world.ask("POST", WIDGETS, widget("a", size=9, rows=[{"key": "x", "value": 5}]))
    tighter = {**SPEC, "properties": {**SPEC["properties"], "size": {"type": "integer", "maximum": 5}}}
    patch = [
        {
            "op": "replace",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            "value": tighter,
        }
    ]
    await world.ask("PATCH", f"{CRDS}/widgets.example.com", patch, "application/json-patch+json")
    made["spec"]["name"] = "new"
    code, answer = await world.ask("PUT", f"{WIDGETS}/a", made)
    assert (code, answer["metadata"]["generation"]) == (200, 2)
    code, answer = await world.ask("PATCH", f"{WIDGETS}/a", {"spec": {"size": 8}}, MERGE)
    assert (code, answer["reason"]) == (422, "Invalid")


async def test_names_that_are_taken_are_refused_until_they_are_free(world):
    second = definition(SPEC, "gadgets")
    second["spec"]["names"]["kind"] = "Widget"
    await world.ask("POST", CRDS, second)

    def refused(code, found):
        conditions = {one["type"]: one for one in found["status"].get("conditions") or ()}
        return conditions.get("NamesAccepted", {}).get("status") == "False"

    found = await world.until(f"{CRDS}/gadgets.example.com", refused)
    said = next(one for one in found["status"]["conditions"] if one["type"] == "NamesAccepted")
    assert (said["reason"], said["message"]) == ("ListKindConflict", '"WidgetList" is already in use')
    assert (await world.ask("GET", "/apis/example.com/v1/gadgets"))[0] == 404
    await world.ask("DELETE", f"{CRDS}/widgets.example.com")
    await world.until("/apis/example.com/v1/gadgets", lambda code, _: code == 200)


async def test_a_deleted_definition_takes_its_objects_with_it(world):
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await world.ask("POST", WIDGETS, held)
    await world.ask("POST", WIDGETS, widget("free"))
    code, answer = await world.ask("DELETE", f"{CRDS}/widgets.example.com")
    assert code == 200
    assert answer["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    await world.until(f"{WIDGETS}/free", lambda code, _: code == 404)
    code, answer = await world.ask("POST", WIDGETS, widget("late"))
    assert code == 403
    assert answer["message"].endswith("create not allowed while custom resource definition is terminating")
    assert (await world.ask("GET", f"{CRDS}/widgets.example.com"))[0] == 200
    await world.ask("PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": None}}, MERGE)
    await world.until(f"{CRDS}/widgets.example.com", lambda code, _: code == 404)
    assert (await world.ask("GET", WIDGETS))[0] == 404
    assert (await world.ask("GET", "/apis/example.com"))[0] == 404


async def test_definitions_are_served_again_after_a_restart(tmp_path):
    async with server(tmp_path, "sqlite") as first:
        await first.define(definition(SPEC))
        await first.ask("POST", WIDGETS, widget("kept"))
    async with server(tmp_path, "sqlite") as second:
        code, found = await second.ask("GET", f"{WIDGETS}/kept")
        assert (code, found["spec"]) == (200, {"size": 3})


async def test_two_servers_of_one_process_do_not_share_kinds(world, tmp_path):
    async with server(tmp_path / "other") as other:
        assert (await other.ask("GET", WIDGETS))[0] == 404


async def test_a_write_that_changes_nothing_moves_an_object_to_the_storage_version(world):
    found = definition({"type": "object"}, plural="movers")
    second = {**found["spec"]["versions"][0], "name": "v2", "storage": False}
    found["spec"]["versions"].append(second)
    await world.define(found)
    path = "/apis/example.com/v1/namespaces/default/movers"
    mover = {"apiVersion": "example.com/v1", "kind": "Mover", "metadata": {"name": "a"}, "spec": {}}
    _, made = await world.ask("POST", path, mover)
    touch = {"metadata": {"labels": None}}
    merge = "application/merge-patch+json"
    _, same = await world.ask("PATCH", f"{path}/a", touch, merge)
    versions = [{"op": "replace", "path": f"/spec/versions/{i}/storage", "value": bool(i)} for i in (0, 1)]
    code, _ = await world.ask("PATCH", f"{CRDS}/movers.example.com", versions, "application/json-patch+json")
    _, moved = await world.ask("PATCH", f"{path}/a", touch, merge)
    _, again = await world.ask("PATCH", f"{path}/a", touch, merge)
    seen = [one["metadata"]["resourceVersion"] for one in (made, same, moved, again)]
    assert code == 200 and seen[0] == seen[1] != seen[2] == seen[3]
    stored = world.running.server.verbs.store.get("/registry/example.com/movers/default/a").value
    assert b'"apiVersion":"example.com/v2"' in stored


EMBEDDING = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}},
        }
    },
}


def embedding(metadata: dict, template: dict) -> dict:
    found = widget("e", template={"apiVersion": "v1", "kind": "Sub", **template})
    found["metadata"] |= metadata
    return found


@pytest.mark.parametrize(
    ("metadata", "template", "problems"),
    [
        ({"odd": 1}, {}, [".metadata.odd: field not declared in schema"]),
        (
            {},
            {"metadata": {"name": "x", "odd": 1}},
            [".spec.template.metadata.odd: field not declared in schema"],
        ),
        (
            {"odd": 1},
            {"metadata": {"odd": 1}},
            [
                ".metadata.odd: field not declared in schema",
                ".spec.template.metadata.odd: field not declared in schema",
            ],
        ),
        (
            {"labels": {"a": 5}},
            {"kind": 5},
            [
                ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:5}",
                ".spec.template.kind: expected string, got &value.valueUnstructured{Value:5}",
            ],
        ),
        ({}, {"metadata": "x"}, [".spec.template.metadata: expected map, got &{x}"]),
    ],
)
async def test_apply_looks_at_the_metadata_of_an_object_and_of_those_in_it(
    world, metadata, template, problems
):
    await world.define(definition(EMBEDDING, "gadgets"))
    body = {**embedding(metadata, template), "kind": "Gadget"}
    gadget = "/apis/example.com/v1/namespaces/default/gadgets/e?fieldManager=m"
    text = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
    for validation in ("Strict", "Warn", "Ignore"):  # apply says it whatever is asked
        code, told = await world.ask(
            "PATCH", f"{gadget}&fieldValidation={validation}", body, "application/apply-patch+yaml"
        )
        assert (code, told["message"]) == (
            500,
            f"failed to create typed patch object (/e; example.com/v1, Kind=Gadget): {text}",
        )


async def test_unknown_metadata_is_refused_told_or_dropped_as_asked(world):
    await world.define(definition(EMBEDDING, "gadgets"))
    body = {**embedding({"odd": 1}, {"metadata": {"name": "x", "odd": 1}}), "kind": "Gadget"}
    gadgets = "/apis/example.com/v1/namespaces/default/gadgets"
    code, told = await world.ask("POST", f"{gadgets}?fieldValidation=Strict", body)
    assert code == 400
    assert 'unknown field "metadata.odd"' in told["message"]
    assert 'unknown field "spec.template.metadata.odd"' in told["message"]
    code, made = await world.ask("POST", f"{gadgets}?fieldValidation=Ignore", body)
    assert code == 201
    assert "odd" not in made["metadata"]
    assert made["spec"]["template"]["metadata"] == {"name": "x"}
