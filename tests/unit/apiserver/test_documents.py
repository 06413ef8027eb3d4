"""What makes a document one of its kind: what all expressions of one object may be together."""

from __future__ import annotations

import pytest

from weir.apiserver import documents
from weir.apiserver.documents import MOST_EXPRESSION_TEXT
from weir.errors import RequestTooLarge
from weir.gates import ALL_FEATURES
from weir.objects.kinds import find


def problems_of(plural: str, group: str, version: str, found: dict) -> list:
    kind = find(group, version, plural)
    assert kind is not None
    documents.default(found, kind)
    return documents.validate(found, None, kind, ALL_FEATURES)


def pod(count: int, size: int) -> dict:
    tolerations = [{"expression": f"taint.key == '{n}'".ljust(size)} for n in range(count)]
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": tolerations},
    }


def claim(count: int, size: int) -> dict:
    def selectors(request: int) -> list[dict]:
        return [{"cel": {"expression": f"device.driver == '{request}.{n}'".ljust(size)}} for n in range(32)]

    requests = [
        {"name": f"r{n}", "exactly": {"deviceClassName": "c", "selectors": selectors(n)}}
        for n in range(count)
    ]
    return {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"requests": requests}}}


def test_a_pod_with_many_expressions_is_one_and_with_too_many_is_refused():
    assert problems_of("pods", "", "v1", pod(500, 100)) == []
    with pytest.raises(RequestTooLarge, match="limit is 262144 characters of expressions"):
        problems_of("pods", "", "v1", pod(MOST_EXPRESSION_TEXT // 10_000 + 1, 10_000))


def test_the_same_holds_for_selectors_of_devices():
    assert problems_of("resourceclaims", "resource.k8s.io", "v1", claim(2, 100)) == []
    with pytest.raises(RequestTooLarge):
        problems_of("resourceclaims", "resource.k8s.io", "v1", claim(2, 10_000))
