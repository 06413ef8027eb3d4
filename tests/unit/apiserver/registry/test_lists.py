"""A page as the List of its kind: a join of stored bytes."""

from __future__ import annotations

import json

import pytest

from weir.apiserver.registry.lists import Page, list_body
from weir.objects.kinds import by_kind
from weir.store import KeyValue


@pytest.mark.parametrize("kind", [by_kind("v1", "Pod"), by_kind("resource.k8s.io/v1beta1", "DeviceClass")])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_list_is_its_head_and_its_items(kind, count):
    values = [
        {"metadata": {"resourceVersion": str(number), "name": f"a-{number}"}} for number in range(count)
    ]
    items = [KeyValue("", json.dumps(value).encode(), 1, 1) for value in values]
    found = json.loads(b",".join(list_body(kind, Page(items, 7))))
    assert list(found) == ["kind", "apiVersion", "metadata", "items"]
    assert (found["kind"], found["apiVersion"]) == (f"{kind.kind}List", kind.api_version)
    assert found["metadata"] == {"resourceVersion": "7"}
    assert [one["metadata"] for one in found["items"]] == [one["metadata"] for one in values]
    assert [item.value for item in items] == [
        json.dumps(value).encode() for value in values
    ]  # what is stored stays
