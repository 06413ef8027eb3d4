"""Probes: when a container is ready, and when it is ended."""

from __future__ import annotations

import math

import pytest

from weir.simulation.kubelet.probes import ProbeTimes, probe_times

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
