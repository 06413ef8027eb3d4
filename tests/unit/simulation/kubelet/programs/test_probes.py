"""Probes: when a container is ready, and when it is ended."""

from __future__ import annotations

import math

import pytest

from weir.simulation.kubelet.programs.probes import ProbeTimes, predict_probes

EXEC = {"exec": {"command": ["x"]}}


def from_time(at):
    return lambda probe, after: after >= at


def until_time(at):
    return lambda probe, after: after < at


@pytest.mark.parametrize(
    ("container", "answer", "found"),
    [
        ({}, lambda probe, at: False, ProbeTimes()),
        ({"readinessProbe": {"httpGet": {}}}, lambda probe, at: None, ProbeTimes()),
        ({"readinessProbe": {**EXEC, "periodSeconds": 5}}, from_time(12), ProbeTimes(ready=15.0)),
        ({"readinessProbe": {**EXEC, "successThreshold": 3}}, from_time(0), ProbeTimes(ready=20.0)),
        ({"readinessProbe": EXEC}, lambda probe, at: False, ProbeTimes(ready=math.inf)),
        ({"livenessProbe": {**EXEC, "periodSeconds": 1}}, until_time(10), ProbeTimes(killed=12.0)),
        (
            {"livenessProbe": {**EXEC, "initialDelaySeconds": 15, "failureThreshold": 1}},
            until_time(10),
            ProbeTimes(killed=15.0),
        ),
        ({"livenessProbe": EXEC}, lambda probe, at: None, ProbeTimes()),
        ({"startupProbe": {**EXEC, "periodSeconds": 4}}, from_time(6), ProbeTimes(started=8.0, ready=8.0)),
        (
            {"startupProbe": EXEC, "livenessProbe": EXEC},
            lambda probe, at: False,
            ProbeTimes(math.inf, math.inf, 20.0),
        ),
    ],
)
def test_what_probes_foretell(container, answer, found):
    assert predict_probes(container, answer) == found
