"""JSON Merge Patch (RFC 7386): its laws and its one error."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.patches.merge import patch
from weir.errors import BadRequest

KEYS = st.sampled_from(["a", "b", "c"])
SCALARS = st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(SCALARS, max_size=2) | st.dictionaries(KEYS, inner), max_leaves=6
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=3)
PATCHES = st.dictionaries(KEYS, st.none() | VALUES, max_size=3)


def merged(document: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    return patch(document, json.dumps(overlay).encode())


def test_null_removes_and_lists_are_replaced() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": [1, 2]}, {"a": {"b": None}, "d": [3]}) == {
        "a": {"c": 2},
        "d": [3],
    }


@pytest.mark.parametrize(
    "body, word", [(b"[1]", "array"), (b"5", "number"), (b'"x"', "string"), (b"true", "bool")]
)
def test_anything_but_an_object_cannot_be_read(body: bytes, word: str) -> None:
    with pytest.raises(
        BadRequest, match=f"^error decoding patch: json: cannot unmarshal {word} into Go value"
    ):
        patch({}, body)


@pytest.mark.parametrize("body", [b'{"metadata":', b""])
def test_anything_but_json_is_an_invalid_patch(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"^invalid JSON patch$"):
        patch({}, body)


def test_null_is_refused_by_the_merge_itself() -> None:
    with pytest.raises(BadRequest, match=r"^Invalid JSON Patch$"):
        patch({}, b"null")


@given(DOCUMENTS)
def test_the_empty_patch_changes_nothing(document: dict[str, Any]) -> None:
    assert merged(document, {}) == document


@given(DOCUMENTS, PATCHES)
def test_patching_twice_is_patching_once(document: dict[str, Any], overlay: dict[str, Any]) -> None:
    once = merged(document, overlay)
    assert merged(once, overlay) == once


@given(DOCUMENTS, DOCUMENTS)
def test_every_document_can_be_reached_by_the_difference_to_it(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert merged(one, difference(one, other)) == other


@given(DOCUMENTS, PATCHES)
def test_the_document_itself_stays_as_it_was(document: dict[str, Any], overlay: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    merged(document, overlay)
    assert document == before


def difference(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that turns *one* into *other*."""
    out: dict[str, Any] = {key: None for key in one if key not in other}
    for key, value in other.items():
        if key not in one:
            out[key] = value
        elif one[key] != value or isinstance(one[key], bool) != isinstance(value, bool):
            both = isinstance(one[key], dict) and isinstance(value, dict)
            out[key] = difference(one[key], value) if both else value
    return out
