"""What a real scheduler wrote about pods it could not place, word for word: explain would have written the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.recording import RECORDED
from weir.explain.pod import explain
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.world import World


def bodies() -> dict[str, Any]:
    recorded = json.loads((RECORDED / "scheduling.json").read_text())
    return {fixture["name"]: fixture["response"]["body"] for fixture in recorded}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return bodies()


def condition(pod: dict[str, Any]) -> str:
    return next(
        (
            str(c["message"])
            for c in pod["status"].get("conditions", ())
            if c["type"] == "PodScheduled" and c["status"] == "False" and c.get("reason") == "Unschedulable"
        ),
        "",
    )


def test_every_recorded_refusal_is_worded_the_same(recorded):
    nodes = recorded["nodes-after-lifecycle-controller"]
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "unbound", "namespace": "golden"}}
    fast = {"kind": "StorageClass", "metadata": {"name": "now"}}
    refused = {
        name: body
        for name, body in recorded.items()
        if isinstance(body, dict) and body.get("kind") == "Pod" and condition(body)
    }
    assert len(refused) >= 10
    for name, pod in refused.items():
        world = World.of([nodes, {**claim, "spec": {"storageClassName": "now"}}, fast])
        if name == "preempt-no-help-same-priority-pod":
            world = world.overlay(*World.of([recorded["preempt-victim-pod"]]).pods.values())
        if name == "cordoned-pod":
            cordoned = next(n for n in nodes["items"] if n["metadata"]["name"] == "n950")
            cordoned = {"kind": "Node", **cordoned, "spec": {**cordoned["spec"], "unschedulable": True}}
            world = world.overlay(World.of([cordoned]).nodes["n950"])
        answer = explain(Subject.of(pod, stored=True), world, ALL_FEATURES)
        assert answer.attempt.upstream == condition(pod), name


def test_the_recorded_placement_is_one_that_fits(recorded):
    pod = recorded["bound-pod"]
    answer = explain(
        Subject.of(pod, stored=True), World.of([recorded["nodes-after-lifecycle-controller"]]), ALL_FEATURES
    )
    assert answer.fitting == (pod["spec"]["nodeName"],)
