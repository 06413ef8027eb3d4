"""How containers behave: what annotations say, and the node's class where they do not."""

from __future__ import annotations

import math
import random

import pytest

from weir.simulation.kubelet.behaviour import Behaviour, Life, LifeError, ProbeTimes, probe_times

NEVER = {"startup_from": math.inf, "ready_from": math.inf, "healthy_until": 0.0}


@pytest.mark.parametrize(
    ("container", "declared", "times"),
    [
        ({}, NEVER, ProbeTimes()),
        ({"readinessProbe": {}}, {}, ProbeTimes()),
        ({"readinessProbe": {"periodSeconds": 5}}, {"ready_from": 12}, ProbeTimes(ready=15.0)),
        ({"readinessProbe": {"periodSeconds": 5}}, {"ready_from": 15}, ProbeTimes(ready=15.0)),
        ({"readinessProbe": {"successThreshold": 3}}, {}, ProbeTimes(ready=20.0)),
        ({"readinessProbe": {}}, NEVER, ProbeTimes(ready=math.inf)),
        ({"livenessProbe": {"periodSeconds": 1}}, {"healthy_until": 10}, ProbeTimes(killed=12.0)),
        (
            {"livenessProbe": {"initialDelaySeconds": 15, "failureThreshold": 1}},
            {"healthy_until": 10},
            ProbeTimes(killed=15.0),
        ),
        ({"livenessProbe": {}}, {}, ProbeTimes()),
        ({"startupProbe": {"periodSeconds": 4}}, {"startup_from": 6}, ProbeTimes(started=8.0, ready=8.0)),
        ({"startupProbe": {}}, {"startup_from": 20.5}, ProbeTimes(math.inf, math.inf, 20.0)),
        ({"startupProbe": {}, "livenessProbe": {}}, NEVER, ProbeTimes(math.inf, math.inf, 20.0)),
        (
            {"startupProbe": {}, "readinessProbe": {"periodSeconds": 3}, "livenessProbe": {}},
            {"startup_from": 10, "ready_from": 12, "healthy_until": 5},
            ProbeTimes(10.0, 13.0, 30.0),
        ),
    ],
)
def test_times_of_probes(container, declared, times):
    assert probe_times(container, **declared) == times


def behaviour(annotations=None, restart="Always", life=None):
    named = {f"weir.dev/{name}": value for name, value in (annotations or {}).items()}
    pod = {"metadata": {"annotations": named}, "spec": {"restartPolicy": restart}}
    return Behaviour(pod, life or Life(), random.Random(1))


@pytest.mark.parametrize(
    ("annotations", "restart", "seconds"),
    [
        ({}, "Always", math.inf),
        ({}, "Never", 5),
        ({}, "OnFailure", 5),
        ({"run-seconds": "30"}, "Always", 30),
        ({"run-seconds": "soon"}, "Never", 5),
        ({"run-seconds": "nan"}, "Never", 5),
        ({"run-seconds": "30", "run-seconds.c": "7"}, "Never", 7),
        ({"run-seconds.other": "7"}, "Never", 5),
    ],
)
def test_how_long_a_container_runs(annotations, restart, seconds):
    assert behaviour(annotations, restart).run_seconds("c", 0, ordinary=True) == seconds


def test_init_containers_take_no_time_unless_named():
    asked = behaviour({"run-seconds": "30", "run-seconds.slow": "4"})
    times = [asked.run_seconds(name, 0, ordinary=False, init=True) for name in ("fast", "slow")]
    assert times == [0, 4]


def test_jitter_only_adds():
    varied = behaviour(life=Life(start_seconds=2, jitter=0.5))
    times = [varied.start_seconds() for _ in range(100)]
    assert 2 <= min(times) < max(times) <= 3


def test_containers_fail_as_often_as_their_node_says():
    failing = behaviour(life=Life(failure_rate=0.25))
    assert 200 < sum(failing.exit_code("c", 0, ordinary=True) for _ in range(1000)) < 300


def test_each_start_may_end_in_another_way():
    asked = behaviour({"exit-code": "1,2,0"})
    assert [asked.exit_code("c", start, ordinary=True) for start in range(4)] == [1, 2, 0, 0]


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("run-seconds", "soon", True),
        ("run-seconds", "1,2", False),
        ("run-seconds", "-1", True),
        ("exit-code", "256", True),
        ("exit-code.c", "x", True),
        ("stop-seconds", "ignore", False),
        ("stop-seconds", "never", True),
        ("ready-seconds", "never", False),
        ("healthy-seconds", "never", True),
        ("healthy-seconds", "ignore", True),
        ("output", "hello", False),
        ("image-pull", "fail", False),
        ("image-pull", "often", True),
        ("colour", "red", False),  # not a setting
    ],
)
def test_what_cannot_be_used_is_reported(name, text, wrong):
    problems = list(behaviour({name: text}).problems())
    assert [f"weir.dev/{name}: '{text}'" in problem for problem in problems] == [True] * wrong


@pytest.mark.parametrize("document", [{"speed": 1}, {"startSeconds": -1}, {"jitter": "x"}, {"jitter": True}])
def test_a_life_that_cannot_be_lived_is_refused(document):
    with pytest.raises(LifeError):
        Life.read(document)
