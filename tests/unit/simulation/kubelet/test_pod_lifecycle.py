"""A pod's life as a table."""

from __future__ import annotations

import random

import pytest

from weir.simulation.kubelet.node_classes import ClassError, NodeClass
from weir.simulation.kubelet.pod_lifecycle import Life, LifeError, exit_code, lasts_seconds, stage_of


def pod(phase="Pending", restart="Always", annotations=None, **metadata):
    return {
        "metadata": {"annotations": annotations or {}, **metadata},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c"}]},
        "status": {"phase": phase},
    }


DELETED = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    "document, stage",
    [
        (pod(), "start"),
        (pod("Running"), None),
        (pod("Running", "Never"), "finish"),
        (pod("Running", annotations={"weir.dev/run-seconds": "3"}), "finish"),
        (pod("Succeeded", "Never"), None),
        (pod("Running", **DELETED), "terminate"),
        (pod("Pending", **DELETED), "terminate"),
        (pod("Failed", **DELETED), "terminate"),
    ],
)
def test_the_stage_follows_from_how_the_pod_looks(document, stage):
    found = stage_of(document)
    assert (found.name if found else None) == stage


@pytest.mark.parametrize(
    "document, seconds",
    [
        (pod(), 2),
        (pod("Running", "Never"), 5),
        (pod("Running", annotations={"weir.dev/run-seconds": "30"}), 30),
        (pod("Running", "Never", annotations={"weir.dev/run-seconds": "soon"}), 5),
        (pod("Running", "Never", annotations={"weir.dev/run-seconds": "nan"}), 5),
        (pod("Running", **DELETED), 8),
        (pod("Running", **{**DELETED, "deletionGracePeriodSeconds": 3}), 3),
        (pod("Succeeded", **DELETED), 0),
    ],
)
def test_how_long_a_stage_lasts(document, seconds):
    life = Life(start_seconds=2, run_seconds=5, terminate_seconds=8)
    assert lasts_seconds(stage_of(document), document, life, random.Random(1)) == seconds


def test_jitter_only_adds():
    life, chance = Life(start_seconds=2, jitter=0.5), random.Random(1)
    times = [lasts_seconds(stage_of(pod()), pod(), life, chance) for _ in range(100)]
    assert 2 <= min(times) < max(times) <= 3


def test_pods_fail_as_often_as_their_node_says():
    chance = random.Random(1)
    codes = [exit_code(pod(), Life(failure_rate=0.25), chance) for _ in range(1000)]
    assert 200 < sum(codes) < 300


def test_a_pod_may_say_how_it_ends():
    assert exit_code(pod(annotations={"weir.dev/exit-code": "3"}), Life(), random.Random(1)) == 3


@pytest.mark.parametrize("document", [{"speed": 1}, {"startSeconds": -1}, {"jitter": "x"}, {"jitter": True}])
def test_a_life_that_cannot_be_lived_is_refused(document):
    with pytest.raises(LifeError):
        Life.read(document)


@pytest.mark.parametrize("document", [7, {"colour": "red"}, {"labels": 3}, {"life": {"x": 1}}])
def test_a_class_that_is_none_is_refused(document):
    with pytest.raises(ClassError):
        NodeClass.read(document, "x")
