"""Probes: when a container is ready, and when it is ended."""

from __future__ import annotations

import math

import pytest

from weir.simulation.kubelet.programs.probes import Foretold, foretell

EXEC = {"exec": {"command": ["x"]}}


def from_time(at):
    return lambda probe, after: after >= at


def until_time(at):
    return lambda probe, after: after < at


@pytest.mark.parametrize(
    ("container", "answer", "found"),
    [
        ({}, lambda probe, at: False, Foretold()),
        ({"readinessProbe": {"httpGet": {}}}, lambda probe, at: None, Foretold()),
        ({"readinessProbe": {**EXEC, "periodSeconds": 5}}, from_time(12), Foretold(ready=15.0)),
        ({"readinessProbe": {**EXEC, "successThreshold": 3}}, from_time(0), Foretold(ready=20.0)),
        ({"readinessProbe": EXEC}, lambda probe, at: False, Foretold(ready=math.inf)),
        ({"livenessProbe": {**EXEC, "periodSeconds": 1}}, until_time(10), Foretold(killed=12.0)),
        (
            {"livenessProbe": {**EXEC, "initialDelaySeconds": 15, "failureThreshold": 1}},
            until_time(10),
            Foretold(killed=15.0),
        ),
        ({"livenessProbe": EXEC}, lambda probe, at: None, Foretold()),
        ({"startupProbe": {**EXEC, "periodSeconds": 4}}, from_time(6), Foretold(started=8.0, ready=8.0)),
        (
            {"startupProbe": EXEC, "livenessProbe": EXEC},
            lambda probe, at: False,
            Foretold(math.inf, math.inf, 20.0),
        ),
    ],
)
def test_what_probes_foretell(container, answer, found):
    assert foretell(container, answer) == found
