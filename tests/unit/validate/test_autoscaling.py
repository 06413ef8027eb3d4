"""What the API server says about HorizontalPodAutoscalers; the texts are a real server's (tests/kubernetes)."""

from __future__ import annotations

from typing import Any

import pytest

from weir.validate import validate

SOUND: dict[str, Any] = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "maxReplicas": 5,
}


def problems(old: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    def whole(changed: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": "h", "namespace": "default", "resourceVersion": "1"}
        return {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": metadata,
            "spec": {**SOUND, **changed},
        }

    return [str(each) for each in validate(whole(spec), None if old is None else whole(old))]


def metric(kind: str, **source: Any) -> dict[str, Any]:
    return {"metrics": [{"type": kind, kind[0].lower() + kind[1:]: source}]}


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"maxReplicas": 0}, ["spec.maxReplicas: Required value"]),
    ({"maxReplicas": -1}, ["spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1"]),
    (
        {"minReplicas": 6},
        ["spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
    ),
    (
        {"minReplicas": 0},
        [
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to "
            "zero replicas"
        ],
    ),
    (
        {"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "v1"}},
        ['spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group'],
    ),
    ({"scaleTargetRef": {"kind": "ReplicationController", "name": "web", "apiVersion": "v1"}}, []),
    (
        metric("Resource", name="cpu", target={"type": "Utilization", "averageUtilization": 0}),
        ["spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"],
    ),
    (
        metric("Pods", metric={"name": "m"}, target={"type": "AverageValue"}),
        [
            "spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue"
        ],
    ),
    (
        {"behavior": {"scaleUp": {"policies": []}}},
        ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"],
    ),
    ({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3600}}}, []),
    (
        {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601}}},
        [
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600"
        ],
    ),
]


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_what_is_wrong_is_said_in_the_servers_words(spec: dict[str, Any], expected: list[str]) -> None:
    assert problems(**spec) == expected


def test_a_target_that_was_accepted_once_may_stay() -> None:
    odd = {"scaleTargetRef": {"kind": "Thing", "name": "x", "apiVersion": ""}}
    assert problems(old=odd, **odd, maxReplicas=7) == []
    assert problems(**odd) != []
