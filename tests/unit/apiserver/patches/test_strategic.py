"""Strategic merge patch: merge keys and directives."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.patches import merge
from weir.apiserver.patches.strategic import patch
from weir.errors import ApiError, BadRequest, InternalError
from weir.objects.kinds import by_kind

POD = by_kind("v1", "Pod")
DOCUMENT = {
    "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["f/a", "f/b"]},
    "spec": {
        "containers": [
            {"name": "c1", "image": "x", "env": [{"name": "E", "value": "1"}]},
            {"name": "c2", "image": "y"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k"}],
    },
}


def apply(overlay: dict[str, Any]) -> dict[str, Any]:
    return patch(DOCUMENT, json.dumps(overlay).encode(), POD)


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def test_containers_merge_by_name() -> None:
    spec = apply({"spec": {"containers": [{"name": "c2", "image": "z"}]}})["spec"]
    assert spec["containers"] == [DOCUMENT["spec"]["containers"][0], {"name": "c2", "image": "z"}]


def test_environment_merges_by_name_inside_a_container() -> None:
    overlay = {"spec": {"containers": [{"name": "c1", "env": [{"name": "F", "value": "2"}]}]}}
    assert names(apply(overlay)["spec"]["containers"][0]["env"]) == ["F", "E"]


def test_new_items_go_before_the_existing_ones() -> None:
    assert names(apply({"spec": {"containers": [{"name": "new"}]}})["spec"]["containers"]) == [
        "new",
        "c1",
        "c2",
    ]


def test_tolerations_have_no_key_and_are_replaced_whole() -> None:
    assert apply({"spec": {"tolerations": [{"key": "z"}]}})["spec"]["tolerations"] == [{"key": "z"}]


def test_a_map_can_be_replaced_or_emptied() -> None:
    replaced = apply({"metadata": {"labels": {"$patch": "replace", "k": "v"}}})["metadata"]["labels"]
    emptied = apply({"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"]
    assert (replaced, emptied) == ({"k": "v"}, {})


def test_an_item_can_be_deleted_and_a_list_replaced() -> None:
    deleted = apply({"spec": {"containers": [{"name": "c1", "$patch": "delete"}]}})["spec"]["containers"]
    replaced = apply({"spec": {"containers": [{"name": "n"}, {"$patch": "replace"}]}})["spec"]["containers"]
    assert (names(deleted), names(replaced)) == (["c2"], ["n"])


def test_members_of_a_set_are_added_once_and_deleted_by_name() -> None:
    added = apply({"metadata": {"finalizers": ["f/b", "f/c"]}})["metadata"]["finalizers"]
    deleted = apply({"metadata": {"$deleteFromPrimitiveList/finalizers": ["f/a"]}})["metadata"]["finalizers"]
    assert (sorted(added), deleted) == (["f/a", "f/b", "f/c"], ["f/b"])


def test_an_order_is_obeyed_and_items_only_the_server_has_keep_their_place() -> None:
    overlay = {
        "spec": {
            "$setElementOrder/containers": [{"name": "n"}, {"name": "c1"}],
            "containers": [{"name": "n"}],
        }
    }
    assert names(apply(overlay)["spec"]["containers"]) == ["n", "c1", "c2"]


def test_retained_keys_clear_the_others() -> None:
    overlay = {
        "spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    }
    assert apply(overlay)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


@pytest.mark.parametrize(
    ("overlay", "error", "message"),
    [
        (
            {"spec": {"containers": [{"image": "x"}]}},
            InternalError,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            {"metadata": {"labels": {"$patch": "boo"}}},
            InternalError,
            "unknown patch type: boo in map: map[$patch:boo]",
        ),
        (
            {"spec": {"containers": [{"name": "c1", "$patch": "merge"}]}},
            InternalError,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {}}]}},
            BadRequest,
            "invalid patch format of retainKeys",
        ),
        (
            {"metadata": {"$deleteFromPrimitiveList": []}},
            BadRequest,
            "invalid patch format of primitive list",
        ),
    ],
)
def test_a_bad_directive_is_refused_in_the_servers_words(
    overlay: dict[str, Any], error: type[ApiError], message: str
) -> None:
    with pytest.raises(error) as caught:
        apply(overlay)
    assert (type(caught.value), caught.value.message) == (error, message)


@pytest.mark.parametrize("body", [b"[]", b"5", b"{", b""])
def test_a_body_that_is_no_object_is_a_400(body: bytes) -> None:
    with pytest.raises(BadRequest):
        patch({}, body, POD)


def test_the_document_itself_stays_as_it_was() -> None:
    before = copy.deepcopy(DOCUMENT)
    apply(
        {
            "spec": {
                "containers": [{"name": "c1", "$patch": "delete"}],
                "volumes": [{"name": "v", "hostPath": {}}],
            }
        }
    )
    assert before == DOCUMENT


SCALARS = st.sampled_from(["x", "y", 1, True, None])
LABELS = st.dictionaries(st.sampled_from(["a", "b", "c"]), SCALARS, max_size=3)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": LABELS,
        "nodeName": SCALARS,
        "tolerations": st.lists(st.dictionaries(st.sampled_from(["key", "value"]), st.just("z")), max_size=2),
        "securityContext": st.dictionaries(st.just("runAsUser"), st.none() | st.integers(0, 5)),
    },
)
PLAIN = st.fixed_dictionaries(
    {}, optional={"metadata": st.fixed_dictionaries({"labels": LABELS}), "spec": SPECS}
)


@given(PLAIN, PLAIN)
def test_without_merge_keys_and_directives_it_is_a_merge_patch(
    document: dict[str, Any], overlay: dict[str, Any]
) -> None:
    document = merge.patch({}, json.dumps(document).encode())  # stored documents hold no nulls
    body = json.dumps(overlay).encode()
    assert patch(document, body, POD) == merge.patch(document, body)


CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcd")}, optional={"image": st.sampled_from("xyz")}),
    max_size=4,
    unique_by=lambda container: container["name"],
)


@given(CONTAINERS, CONTAINERS)
def test_keyed_items_end_up_as_old_overlaid_by_new(
    old: list[dict[str, str]], new: list[dict[str, str]]
) -> None:
    body = json.dumps({"spec": {"containers": new}}).encode()
    result = patch({"spec": {"containers": old}}, body, POD)["spec"]["containers"]
    expected = {item["name"]: item for item in old}
    for item in new:
        expected[item["name"]] = {**expected.get(item["name"], {}), **item}
    assert {item["name"]: item for item in result} == expected
