"""Resizing a pod: its quality of service class stays, and pod-level resources decide it."""

from __future__ import annotations

import pytest

from weir.validate.core.pod import QOS_CHANGED, validate_resize

BOTH = {"cpu": "2", "memory": "1Gi"}


def resized(pod_level: dict | None, after: dict) -> list[str]:
    def pod(resources: dict) -> dict:
        spec = {"containers": [{"name": "c", "resources": resources}]}
        return {"spec": spec if pod_level is None else {**spec, "resources": pod_level}}

    return [each.detail for each in validate_resize(pod(after), pod({}))]


@pytest.mark.parametrize("pod_level", [{"requests": {"cpu": "2"}}, {"requests": BOTH, "limits": BOTH}])
def test_a_container_may_be_resized_within_resources_of_the_pod(pod_level):
    assert resized(pod_level, {"requests": {"cpu": "1"}}) == []


def test_a_first_request_changes_the_class_of_a_pod_without_resources_of_its_own():
    assert resized(None, {"requests": {"cpu": "1"}}) == [QOS_CHANGED]
