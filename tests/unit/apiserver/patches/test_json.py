"""JSON Patch (RFC 6902) as the API server applies it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.patches.json import patch, patch_of_webhook
from weir.errors import BadRequest, InternalError, Invalid, RequestTooLarge

DOCUMENT = {"metadata": {"labels": {"a": "1", "b/c": "2"}}, "list": ["x", "y"]}


def apply(*operations: dict[str, Any]) -> Any:
    return patch(DOCUMENT, json.dumps(operations).encode())


def op(name: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **rest}


@pytest.mark.parametrize(
    ("operations", "where", "result"),
    [
        (
            [op("add", "/metadata/labels/c", value="3")],
            "metadata",
            {"labels": {"a": "1", "b/c": "2", "c": "3"}},
        ),
        ([op("add", "/list/-", value="z")], "list", ["x", "y", "z"]),
        ([op("add", "/list/1", value="z")], "list", ["x", "z", "y"]),
        ([op("add", "/list/-1", value="z")], "list", ["x", "y", "z"]),
        ([op("replace", "/metadata/labels/a", value="9")], "metadata", {"labels": {"a": "9", "b/c": "2"}}),
        (
            [op("replace", "/metadata/labels/new", value="9")],
            "metadata",
            {"labels": {"a": "1", "b/c": "2", "new": "9"}},
        ),
        ([op("remove", "/metadata/labels/b~1c")], "metadata", {"labels": {"a": "1"}}),
        ([op("remove", "/list/-1")], "list", ["x"]),
        ([op("test", "/list/0", value="x"), op("remove", "/list/0")], "list", ["y"]),
        ([op("copy", "/list/-", **{"from": "/metadata/labels/a"})], "list", ["x", "y", "1"]),
        ([op("move", "/list/0", **{"from": "/list/1"})], "list", ["y", "x"]),
    ],
)
def test_an_operation_changes_what_it_names(
    operations: list[dict[str, Any]], where: str, result: Any
) -> None:
    assert apply(*operations)[where] == result


@pytest.mark.parametrize(
    "operation",
    [
        op("test", "/metadata/labels/a", value="no"),
        op("test", "/list/0", value=True),
        op("replace", "/metadata/nope/zz", value=1),
        op("replace", "/list/7", value=1),
        op("remove", "/metadata/labels/nope"),
        op("remove", "/list/2"),
        op("add", "/list/x", value=1),
        op("add", "", value={}),
        op("frob", "/metadata"),
        {"op": "add", "value": 1},
        {"op": "move", "path": "/a"},
    ],
)
def test_an_operation_that_does_not_apply_is_one_422_without_details(operation: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        apply(operation)
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"op":"add"}', "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (b'["x"]', "json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        (
            b'[{"path":1}]',
            "json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_a_body_that_is_no_list_of_operations_is_a_400(body: bytes, problem: str) -> None:
    with pytest.raises(BadRequest) as caught:
        patch({}, body)
    assert caught.value.message == f"error decoding patch: {problem}"


def test_a_body_that_is_no_json_is_an_invalid_patch() -> None:
    with pytest.raises(BadRequest, match=r"^invalid JSON patch$"):
        patch({}, b"[")


def test_ten_thousand_operations_are_enough() -> None:
    with pytest.raises(RequestTooLarge):
        apply(*[op("test", "/x")] * 10_001)


def test_a_failed_patch_leaves_nothing_behind() -> None:
    before = copy.deepcopy(DOCUMENT)
    with pytest.raises(Invalid):
        apply(op("remove", "/list/0"), op("test", "/list/0", value="no"))
    assert before == DOCUMENT


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b"]), VALUES), VALUES)
def test_adding_and_removing_a_field_is_nothing(document: dict[str, Any], value: Any) -> None:
    operations = [op("add", "/new", value=value), op("test", "/new", value=value), op("remove", "/new")]
    assert patch(document, json.dumps(operations).encode()) == document


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ({"op": "test", "path": "/a", "value": 2}, "testing value /a failed: test failed"),
        (
            {"op": "add", "path": "/x/y", "value": 2},
            'add operation does not apply: doc is missing path: "/x/y": missing value',
        ),
        (
            {"op": "remove", "path": "/x"},
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
        ),
        ({"op": "nope", "path": "/a"}, "Unexpected kind: nope"),
        ({"op": "add"}, "add operation failed to decode path: missing value"),
    ],
)
def test_a_webhooks_patch_fails_with_the_librarys_words(operation, text):
    with pytest.raises(InternalError) as failed:
        patch_of_webhook({"a": 1}, json.dumps([operation]).encode())
    assert failed.value.message == text
