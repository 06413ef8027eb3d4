"""Bodies made to break a reader: nesting without end, copies that double, sets of fields out of nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import count_calls
from weir.apiserver.patches import apply, converter, merge, strategic
from weir.apiserver.patches import json as json_patch
from weir.apiserver.patches.apply import update_managed_fields
from weir.errors import ApiError, Invalid
from weir.objects.document import check, decode
from weir.objects.kinds import by_kind

POD = by_kind("v1", "Pod")
LIVE: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "uid": "u"}, "spec": {}}
NOW = "2026-01-01T00:00:00Z"


def nested(depth: int, opening: str, closing: str) -> str:
    return opening * depth + "1" + closing * depth


def body(value: str) -> bytes:
    return f'{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"x"}},"spec":{{"a":{value}}}}}'.encode()


READERS: dict[str, Callable[[str], Any]] = {
    "decode": lambda value: decode(body(value), POD),
    "yaml": lambda value: decode(body(value), POD, yaml=True),
    "merge": lambda value: check(merge.patch(LIVE, body(value)), POD),
    "strategic": lambda value: converter.patch(LIVE, body(value), POD),
    "apply": lambda value: apply.apply(LIVE, body(value), POD, manager="m", now=NOW),
    "json": lambda value: check(
        json_patch.patch(LIVE, f'[{{"op":"add","path":"/spec/a","value":{value}}}]'.encode()), POD
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("depth", [150, 190, 250, 450, 900, 1000, 5000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]")])
def test_nesting_ends_in_an_answer(reader: str, depth: int, opening: str, closing: str) -> None:
    try:
        READERS[reader](nested(depth, opening, closing))
    except ApiError as error:
        assert error.message


@pytest.mark.parametrize("depth", [100, 250, 900, 5000])
def test_a_bottomless_set_of_fields_is_refused_or_kept(depth: int) -> None:
    entry = '{"manager":"a","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":%s}'
    fields = '{"f:a":' * depth + "{}" + "}" * depth
    text = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","managedFields":[%s]}}' % (entry % fields)
    try:
        new, _ = decode(text.encode(), POD)
    except ApiError as error:
        assert "exceeded max depth" in error.message
    else:
        update_managed_fields(new, LIVE, POD, manager="b", now=NOW)


def test_an_object_copied_into_itself_does_not_fill_the_memory() -> None:
    doubling = [{"op": "copy", "from": "/spec", "path": f"/spec/k{index}"} for index in range(40)]
    with pytest.raises(Invalid):
        json_patch.patch({"spec": {"a": "x" * 1000}}, json.dumps(doubling).encode())


@pytest.mark.parametrize("fields", [5, [], "x", {"f:a": 5}, {"k:not json": {}}, {"": {}}, {".": {"f:a": {}}}])
def test_fields_that_are_no_set_leave_what_was_stored(fields: Any) -> None:
    entry = {
        "manager": "a",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    new = {**LIVE, "metadata": {"name": "x", "managedFields": [entry]}}
    known = {**entry, "manager": "z", "fieldsV1": {"f:spec": {"f:nodeName": {}}}}
    old = {**LIVE, "metadata": {"name": "x", "uid": "u", "managedFields": [known]}}
    update_managed_fields(new, old, POD, manager="b", now=NOW)
    assert new["metadata"]["managedFields"] == [known]


def plainly_sorted(items: list[Any], rank: Callable[[Any], int]) -> list[Any]:
    """Upstream's insertion sort, step by step: what `strategic._sorted` must come to."""
    items = list(items)
    for end in range(1, len(items)):
        at = end
        while at > 0:
            here, previous = rank(items[at]), rank(items[at - 1])
            if here >= 0 and previous >= 0 and here >= previous:
                break
            items[at], items[at - 1] = items[at - 1], items[at]
            at -= 1
    return items


@given(st.lists(st.integers(-1, 6), max_size=12))
def test_items_are_ordered_as_by_insertion(ranks):
    items = list(range(len(ranks)))
    assert strategic._sorted(items, ranks) == plainly_sorted(items, ranks.__getitem__)


class Name(int):
    """A key of an item whose comparisons are calls, and so are counted."""

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, other) is True


@pytest.mark.parametrize("order", [False, True], ids=["merged", "with an order"])
def test_a_patch_of_a_long_list_is_work_in_its_length(order, monkeypatch):
    monkeypatch.setattr(strategic, "copied", deepcopy)  # the other one copies only what JSON has

    def work(size: int) -> int:
        """Return how many functions a patch calls: most of the work would be comparisons."""
        there = [{"name": Name(number), "value": "a"} for number in range(size)]
        container: dict[str, Any] = {
            "name": "c",
            "env": [{"name": Name(number), "value": "b"} for number in range(size)],
        }
        if order:
            container["$setElementOrder/env"] = [{"name": Name(number)} for number in range(size)]
        else:
            container["env"] += [{"name": Name(size + n), "$patch": "delete"} for n in range(size)]
        live = {"spec": {"containers": [{"name": "c", "image": "i", "env": there}]}}
        patch = {"spec": {"containers": [container]}}
        return count_calls(lambda: strategic.merge_map(live, patch, strategic.schema_node(POD)))

    assert work(400) < 12 * work(50), "eight times as long; comparing each with each is 64 times the work"
