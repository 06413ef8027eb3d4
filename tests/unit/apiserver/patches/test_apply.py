"""Server-side apply: what comes out, who owns it, who objects."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.apiserver.patches.recorded import body_of, exchanges, timeless
from weir.apiserver.patches import fieldset
from weir.apiserver.patches.apply import LAST_APPLIED, apply, update_managed_fields
from weir.apiserver.patches.compare import compare, field_set, overlay
from weir.apiserver.patches.structure import root_node
from weir.errors import ApiError, BadRequest, Conflict, InternalError
from weir.objects import kinds, schema
from weir.objects.defaults import default

POD = kinds.by_kind("v1", "Pod")
T0, T1, T2 = (f"2026-01-01T00:00:0{second}Z" for second in (0, 1, 2))


def config(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "x"} if labels is None else {"name": "x", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def applied(
    live: dict[str, Any] | None,
    configuration: dict[str, Any],
    manager: str = "one",
    now: str = T0,
    force: bool = False,
) -> dict[str, Any]:
    made = apply(live, json.dumps(configuration).encode(), POD, manager=manager, now=now, force=force)
    default(made, POD)
    made["metadata"].setdefault("uid", "u")
    return made


def updated(live: dict[str, Any], manager: str, now: str = T1, **labels: str) -> dict[str, Any]:
    new = copy.deepcopy(live)
    new["metadata"]["labels"] = {**new["metadata"].get("labels", {}), **labels}
    update_managed_fields(new, live, POD, manager=manager, now=now)
    return new


def owners(document: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in document["metadata"].get("managedFields", ())}


BASE = config({"a": "1"}, containers=[{"name": "c", "image": "i"}])


def test_the_applier_owns_exactly_its_configuration() -> None:
    assert owners(applied(None, BASE)) == {
        "one": {
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}}},
        }
    }


def test_defaults_are_there_but_nobodys() -> None:
    made = applied(None, BASE)
    assert (made["spec"]["restartPolicy"], "f:restartPolicy" in owners(made)["one"]["f:spec"]) == (
        "Always",
        False,
    )


def test_applying_the_same_again_changes_nothing_not_even_the_time() -> None:
    live = applied(None, BASE)
    assert applied(live, BASE, now=T1) == live


def test_another_value_for_somebody_elses_field_is_a_conflict() -> None:
    live = applied(None, BASE)
    with pytest.raises(Conflict) as caught:
        applied(live, config({"a": "2"}), "two")
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "one": .metadata.labels.a',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "one"',
                    "field": ".metadata.labels.a",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_manager() -> None:
    live = updated(applied(None, BASE), "upd", b="1")
    with pytest.raises(Conflict) as caught:
        applied(live, config({"a": "2", "b": "2"}, containers=[{"name": "c", "image": "j"}]), "two")
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n'
        "- .metadata.labels.a\n"
        '- .spec.containers[name="c"].image\n'
        'conflicts with "upd" using v1:\n'
        "- .metadata.labels.b"
    )


def test_the_same_value_is_shared_without_conflict() -> None:
    live = applied(None, BASE)
    both = owners(applied(live, config({"a": "1"}), "two"))
    assert {name: fields["f:metadata"] for name, fields in both.items()} == {
        "one": {"f:labels": {"f:a": {}}},
        "two": {"f:labels": {"f:a": {}}},
    }


def test_force_takes_the_field() -> None:
    made = applied(applied(None, BASE), config({"a": "2"}), "two", force=True)
    assert (made["metadata"]["labels"], "f:metadata" in owners(made)["one"]) == ({"a": "2"}, False)


def test_what_is_no_longer_applied_goes_unless_somebody_else_owns_it() -> None:
    live = applied(None, config({"a": "1", "b": "1"}))
    live = applied(live, config({"b": "1"}), "two", T1)
    assert applied(live, config({}), now=T2)["metadata"]["labels"] == {"b": "1"}


def test_a_container_no_longer_applied_goes() -> None:
    two = config(None, containers=[{"name": "c", "image": "i"}, {"name": "d", "image": "i"}])
    live = applied(None, two)
    made = applied(live, config(None, containers=[{"name": "d", "image": "i"}]), now=T1)
    assert [container["name"] for container in made["spec"]["containers"]] == ["d"]


def test_an_untracked_object_gets_a_manager_before_the_first_apply() -> None:
    live = applied(None, BASE)
    del live["metadata"]["managedFields"]
    made = applied(live, config({"a": "2"}), "two", force=True)
    assert sorted(owners(made)) == ["before-first-apply", "two"]


def test_kubectl_may_change_what_its_client_side_apply_wrote() -> None:
    live = applied(None, BASE)
    live["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(config({"a": "1"}))}
    live["metadata"]["managedFields"][0].update(manager="kubectl-client-side-apply", operation="Update")
    made = applied(live, config({"a": "2"}), "kubectl")
    assert (
        made["metadata"]["labels"],
        json.loads(made["metadata"]["annotations"][LAST_APPLIED])["metadata"],
    ) == (
        {"a": "2"},
        {"labels": {"a": "2"}, "name": "x"},
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"bogus": 1}, ".spec.bogus: field not declared in schema"),
        ({"tolerations": [{"foo": 1}]}, ".spec.tolerations[0].foo: field not declared in schema"),
        (
            {"containers": [{"name": "a", "x": 1}]},
            '.spec.containers[name="a"].x: field not declared in schema',
        ),
        ({"priority": "x"}, ".spec.priority: expected numeric (int or float), got string"),
        ({"hostNetwork": "x"}, ".spec.hostNetwork: expected boolean, got &{x}"),
        ({"nodeName": 5}, ".spec.nodeName: expected string, got &value.valueUnstructured{Value:5}"),
        ({"containers": "x"}, ".spec.containers: expected list, got &{x}"),
        ({"securityContext": 5}, ".spec.securityContext: expected map, got &{5}"),
        (
            {"containers": [{"name": "a"}, {"name": "a"}]},
            '.spec.containers: duplicate entries for key [name="a"]',
        ),
        (
            {"containers": [5]},
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            {"hostNetwork": 5, "priority": True},
            "errors:\n  .spec.hostNetwork: expected boolean, got &{5}\n"
            "  .spec.priority: expected numeric (int or float), got bool",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_told_in_applys_words(
    spec: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InternalError) as caught:
        applied(None, config(None, **spec))
    assert caught.value.message == f"failed to create typed patch object (/x; /v1, Kind=Pod): {problem}"


def test_a_definition_holds_schemas_lists_of_them_and_any_value_where_upstream_declares_no_type() -> None:
    row = {
        "type": "object",
        "properties": {
            "sizes": {"type": "array", "items": {"type": "integer"}, "default": [1], "example": {"a": 1}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}, "default": {}},
            "open": {"type": "object", "additionalProperties": True, "default": "x", "enum": [{"a": 1}, 2]},
            "pairs": {"items": [{"type": "string"}], "dependencies": {"a": ["b"], "c": {"type": "object"}}},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": row}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rows.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "versions": [version]},
    }
    kind = kinds.by_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    made = apply(None, json.dumps(definition).encode(), kind, manager="m", now=T0)
    assert made["spec"]["versions"] == [version]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"metadata":{"name":"x"}}', "invalid object type: /, Kind="),
        (b'{"apiVersion":"apps/v1","kind":"Deployment"}', "invalid object type: apps/v1, Kind=Deployment"),
        (
            b'{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[]}}',
            "metadata.managedFields must be nil",
        ),
        (
            b"[1]",
            "error decoding patch: error unmarshaling JSON: while decoding JSON: "
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ],
)
def test_bodies_that_are_no_configuration(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        apply(None, body, POD, manager="m", now=T0)
    assert caught.value.message == message


def test_yaml_is_applied_like_json() -> None:
    text = b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - {name: c, image: i}\n"
    made = apply(None, text, POD, manager="m", now=T0)
    assert made == apply(
        None,
        json.dumps(config(None, containers=[{"name": "c", "image": "i"}])).encode(),
        POD,
        manager="m",
        now=T0,
    )


def test_the_live_object_stays_as_it_was() -> None:
    live = applied(None, BASE)
    before = copy.deepcopy(live)
    applied(live, config({"z": "1"}), "two", T1)
    assert live == before


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("cde")},
        optional={"image": st.sampled_from("ij"), "command": st.lists(st.sampled_from("pq"), max_size=2)},
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda container: container["name"],
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "nodeName": st.sampled_from("mn"),
        "tolerations": st.lists(st.fixed_dictionaries({"key": st.sampled_from("kl")}), max_size=2),
        "securityContext": st.fixed_dictionaries({}, optional={"runAsUser": st.integers(0, 3)}),
    },
)
CONFIGS = st.builds(lambda labels, spec: config(labels, **spec), LABELS, SPECS)


@settings(deadline=None)
@given(CONFIGS, CONFIGS)
def test_applying_twice_is_applying_once(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = applied(applied(None, first), second, now=T1)
    assert applied(live, second, now=T2) == live


@settings(deadline=None)
@given(CONFIGS, CONFIGS)
def test_a_forced_apply_always_wins_and_owns_what_it_says(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    made = applied(applied(None, first), second, "two", T1, force=True)
    node = root_node(schema.struct("core.v1.Pod"))
    named = field_set({"metadata": {"labels": second["metadata"]["labels"]}, "spec": second["spec"]}, node)
    assert owners(made).get("two", {}) == {
        key: below for key, below in named.items() if key != "f:metadata" or below
    }


@settings(deadline=None)
@given(CONFIGS, CONFIGS)
def test_without_force_it_conflicts_or_changes_nothing_of_the_others(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    live = applied(None, first)
    try:
        made = applied(live, second, "two", T1)
    except Conflict:
        return
    assert owners(made).get("one") == owners(live).get("one")


@settings(deadline=None)
@given(CONFIGS, CONFIGS)
def test_one_applier_ends_where_its_last_configuration_would_begin(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    made = applied(applied(None, first), second, now=T1)
    assert owners(made) == owners(applied(None, second))


@settings(deadline=None)
@given(CONFIGS, CONFIGS)
def test_an_overlay_holds_every_field_of_the_configuration(
    live: dict[str, Any], over: dict[str, Any]
) -> None:
    node = root_node(schema.struct("core.v1.Pod"))
    merged = overlay(live, over, node)
    _, modified, removed = compare(over, merged, node)
    mine = field_set(over, node)
    assert fieldset.intersection(mine, fieldset.union(modified, removed)) == {}


APPLIED = [(name, exchange) for name, exchange in exchanges() if name.startswith("patches/apply")]


def test_recorded_applies_follow_one_another_as_recorded() -> None:
    live: dict[str, dict[str, Any]] = {}
    for name, exchange in APPLIED:
        path, _, query = exchange["request"]["path"].partition("?")
        options = dict(part.split("=") for part in query.split("&") if part)
        answer = exchange["response"]
        if "fieldManager" not in options or "name-mismatch" in name:
            continue  # refused before the patch is looked at
        kind = kinds.by_kind("v1", "Node" if "/nodes/" in path else "Pod")
        try:
            made = apply(
                live.get(path),
                body_of(exchange),
                kind,
                manager=options["fieldManager"],
                now="2099-01-01T00:00:00Z",
                force="force" in options,
            )
        except ApiError as error:
            assert error.status() == answer["body"], name
            continue
        expected = answer["body"]["metadata"].get("managedFields")
        assert timeless(made["metadata"].get("managedFields")) == timeless(expected), name
        live[path] = answer["body"]
    assert live
