"""Who owns what after creates and updates."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.unit.apiserver.patches.recorded import body_of, exchanges, timeless
from tests.unit.objects.documents import documents
from weir.apiserver.patches import fieldset
from weir.apiserver.patches.compare import compare, created
from weir.apiserver.patches.custom_structure import zero_document
from weir.apiserver.patches.managedfields import update_managed_fields
from weir.apiserver.patches.structure import Unkeyed, root_node
from weir.objects import kinds, schema
from weir.objects.defaults import default, settle
from weir.objects.document import check, decode
from weir.objects.kind import Kind

POD = kinds.by_kind("v1", "Pod")
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


def pod(**more: Any) -> dict[str, Any]:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", **more.pop("metadata", {})},
        "spec": {"containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})},
    }
    document, _ = decode(json.dumps({**body, **more}).encode(), POD)
    default(document, POD)
    return document


def stored(manager: str = "one", **more: Any) -> dict[str, Any]:
    document = pod(**more)
    update_managed_fields(document, None, POD, manager=manager, now=T0)
    document["metadata"]["uid"] = "u"
    return document


def updated(old: dict[str, Any], manager: str, subresource: str = "", **metadata: Any) -> dict[str, Any]:
    new = copy.deepcopy(old)
    new["metadata"].update(metadata)
    update_managed_fields(new, old, POD, manager=manager, subresource=subresource, now=T1)
    return new


def owners(document: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in document["metadata"].get("managedFields", ())}


def test_the_creator_owns_the_defaulted_object_without_identity_and_status() -> None:
    assert owners(stored(status={"phase": "Running"})) == {
        "one": {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"c"}': {
                        ".": {},
                        "f:image": {},
                        "f:imagePullPolicy": {},
                        "f:name": {},
                        "f:resources": {},
                        "f:terminationMessagePath": {},
                        "f:terminationMessagePolicy": {},
                    }
                },
                "f:dnsPolicy": {},
                "f:enableServiceLinks": {},
                "f:restartPolicy": {},
                "f:schedulerName": {},
                "f:securityContext": {},
                "f:terminationGracePeriodSeconds": {},
            }
        }
    }


def test_tolerations_are_one_leaf_and_labels_are_owned_one_by_one() -> None:
    document = stored(
        metadata={"labels": {"a": "b"}}, spec={"tolerations": [{"key": "k", "operator": "Exists"}]}
    )
    fields = owners(document)["one"]
    assert (fields["f:metadata"], fields["f:spec"]["f:tolerations"]) == (
        {"f:labels": {".": {}, "f:a": {}}},
        {},
    )


def test_a_changed_value_moves_to_the_one_who_changed_it() -> None:
    old = stored(metadata={"labels": {"a": "1", "b": "1"}})
    new = updated(old, "two", labels={"a": "2", "b": "1"})
    assert {name: fields["f:metadata"] for name, fields in owners(new).items()} == {
        "one": {"f:labels": {".": {}, "f:b": {}}},
        "two": {"f:labels": {"f:a": {}}},
    }


def test_an_update_without_effect_changes_nothing() -> None:
    old = stored()
    assert updated(old, "two") == old


def test_the_time_of_an_entry_moves_only_when_its_manager_changes_something() -> None:
    new = updated(stored(), "two", labels={"a": "b"})
    times = {entry["manager"]: entry["time"] for entry in new["metadata"]["managedFields"]}
    assert times == {"one": T0, "two": T1}


def test_a_removed_field_is_nobodys_and_an_empty_entry_vanishes() -> None:
    tracked = updated(stored(), "two", labels={"a": "b"})
    new = copy.deepcopy(tracked)
    del new["metadata"]["labels"]
    update_managed_fields(new, tracked, POD, manager="three", now=T1)
    assert set(owners(new)) == {"one"}


def test_a_status_write_owns_no_spec_and_a_spec_write_no_status() -> None:
    old = stored()
    new = copy.deepcopy(old)
    new["spec"]["nodeName"] = "n"
    new["status"]["phase"] = "Running"
    update_managed_fields(new, old, POD, manager="kubelet", subresource="status", now=T1)
    entry = new["metadata"]["managedFields"][1]
    assert (entry["fieldsV1"], entry["subresource"]) == ({"f:status": {"f:phase": {}}}, "status")


def test_cleared_managed_fields_stay_cleared_on_update() -> None:
    old = stored()
    new = updated(old, "two", managedFields=[], labels={"a": "b"})
    assert "managedFields" not in new["metadata"]


def test_a_client_that_drops_managed_fields_does_not_erase_them() -> None:
    old = stored()
    new = pod()
    update_managed_fields(new, old, POD, manager="two", now=T1)
    assert owners(new) == owners(old)


def test_the_eleventh_updating_manager_makes_the_oldest_two_one() -> None:
    document = stored("m00")
    for index in range(1, 11):
        new = copy.deepcopy(document)
        new["metadata"].setdefault("labels", {})[f"l{index}"] = "x"
        update_managed_fields(new, document, POD, manager=f"m{index:02}", now=f"2026-01-01T00:01:{index:02}Z")
        document = new
    assert sorted(owners(document)) == ["ancient-changes", *(f"m{index:02}" for index in range(2, 11))]


def test_items_without_their_key_leave_ownership_as_it_was() -> None:
    kind = kinds.by_kind("v1", "ServiceAccount")
    known = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    old = {"metadata": {"name": "x", "managedFields": [{**known, "fieldsV1": {"f:secrets": {}}}]}}
    new = {"metadata": {"name": "x"}, "secrets": [{}]}
    update_managed_fields(new, old, kind, manager="two", now=T1)
    assert new["metadata"]["managedFields"] == old["metadata"]["managedFields"]


ROOTS = [k for k in kinds.KINDS if k.stored]


@settings(max_examples=tries(60, 150), deadline=None)
@given(
    st.sampled_from(ROOTS).flatmap(
        lambda k: st.tuples(st.just(k), documents(schema.find_root(k.api_version, k.kind).name))  # type: ignore[union-attr]
    )
)
def test_the_way_of_creates_is_the_general_comparison(sample: tuple[Kind, dict[str, Any]]) -> None:
    kind, document = sample
    document, _ = check(document, kind)
    default(document, kind)
    root = schema.find_root(kind.api_version, kind.kind)
    assert root is not None
    zero, node = zero_document(root), root_node(root)
    try:
        added, modified, _ = compare(zero, document, node)
    except Unkeyed:
        return
    assert created(document, zero, node, {}) == fieldset.union(added, modified)


CREATED = [
    (name, exchange)
    for name, exchange in exchanges()
    if exchange["request"]["method"] == "POST"
    and exchange["response"]["code"] == 201
    and (
        found := kinds.find_kind(
            exchange["response"]["body"].get("apiVersion", ""), exchange["response"]["body"]["kind"]
        )
    )
    and found.stored
]


def test_there_are_recorded_creates() -> None:
    assert len(CREATED) >= 50


@pytest.mark.parametrize(("name", "exchange"), CREATED, ids=[name for name, _ in CREATED])
def test_recorded_creates_are_owned_as_recorded(name: str, exchange: dict[str, Any]) -> None:
    answer = exchange["response"]["body"]
    kind = kinds.by_kind(answer["apiVersion"], answer["kind"])
    yaml = "yaml" in exchange["request"].get("headers", {}).get("Content-Type", "")
    document, _ = decode(body_of(exchange), kind, yaml=yaml)
    default(document, kind, T0)
    update_managed_fields(document, None, kind, manager="golden", now=T0)
    assert timeless(document["metadata"].get("managedFields")) == timeless(
        answer["metadata"].get("managedFields")
    )


@pytest.mark.parametrize(("name", "exchange"), CREATED, ids=[name for name, _ in CREATED])
def test_recorded_creates_hold_every_default(name: str, exchange: dict[str, Any]) -> None:
    answer = exchange["response"]["body"]
    kind = kinds.by_kind(answer["apiVersion"], answer["kind"])
    yaml = "yaml" in exchange["request"].get("headers", {}).get("Content-Type", "")
    document, _ = decode(body_of(exchange), kind, yaml=yaml)
    default(document, kind)
    settle(document, kind)
    document.pop("status", None)
    assert missing(document, answer) == []


#: What admission and the storage strategy change after defaulting.
LATER = {"tolerations", "taints", "volumes", "volumeMounts", "resourceVersion", "managedFields", "finalizers"}


def missing(part: Any, whole: Any, path: str = "") -> list[str]:
    """Return the paths of *part* that *whole* has not, or has otherwise."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return [
            found
            for key, value in part.items()
            if key not in LATER
            for found in (missing(value, whole[key], f"{path}.{key}") if key in whole else [f"{path}.{key}"])
        ]
    if isinstance(part, list) and isinstance(whole, list) and len(part) == len(whole):
        return [found for a, b in zip(part, whole, strict=True) for found in missing(a, b, path + "[]")]
    return [] if part == whole else [f"{path}: {part!r} is {whole!r}"]


def test_fields_are_written_in_one_order_whatever_the_order_they_came_in() -> None:
    def texts(document: dict[str, Any]) -> list[str]:
        return [json.dumps(entry["fieldsV1"]) for entry in document["metadata"]["managedFields"]]

    ports = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 9, "protocol": "TCP"}]
    container = {"name": "c", "image": "i", "ports": ports}
    live = stored(metadata={"labels": {"b": "1", "a": "1"}}, spec={"containers": [container]})
    assert texts(live) == [json.dumps(fieldset.ordered(text)) for text in map(json.loads, texts(live))]
    assert texts(live)[0].index("9,") < texts(live)[0].index("80,")
    new = copy.deepcopy(live)
    new["metadata"]["labels"] |= {"z": "1", "c": "1"}
    update_managed_fields(new, live, POD, manager="one", now=T1)
    assert '"f:labels": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}, "f:z": {}}' in texts(new)[0]
    edited = copy.deepcopy(new)
    sent = edited["metadata"]["managedFields"][0]
    sent["fieldsV1"] = dict(reversed(sent["fieldsV1"].items()))
    sent["manager"] = "two"
    update_managed_fields(edited, new, POD, manager="one", now=T1)
    assert list(sent["fieldsV1"]) == ["f:spec", "f:metadata"]
    assert texts(edited) == texts(new)
