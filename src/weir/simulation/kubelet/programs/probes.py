"""Readiness and failure times of a container's probes, computed at its start.

Spec: core/v1 Probe; the numbers that are not set are Kubernetes' defaults. An exec probe with a playable command
gives the command's result; all others succeed. A container that was ready stays ready until it exits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Document = Mapping[str, Any]
#: A probe's result at a number of seconds after the start; None: unknown.
Answer = Callable[[Document, float], bool | None]
MOST_LOOKS: Final = 100


@dataclass(frozen=True, slots=True)
class ProbeTimes:
    """Seconds after a container's start."""

    started: float = 0.0  #: when its startup probe succeeded
    ready: float = 0.0
    killed: float = math.inf  #: when a startup or liveness probe has failed too often


def predict_probes(container: Document, answer: Answer) -> ProbeTimes:
    """Return when the probes of a container make it ready, and kill it.

    >>> predict_probes({"readinessProbe": {"httpGet": {}, "initialDelaySeconds": 30}}, lambda probe, at: None)
    ProbeTimes(started=0.0, ready=30.0, killed=inf)
    """
    started = 0.0
    if startup := container.get("startupProbe"):
        started, failed = _looks(startup, 0.0, answer)
        if failed < started:
            return ProbeTimes(math.inf, math.inf, failed)
    ready = started
    if readiness := container.get("readinessProbe"):
        ready, _ = _looks(readiness, started, answer, lasting=True)
    killed = math.inf
    if liveness := container.get("livenessProbe"):
        killed = _first_failure(liveness, started, answer)
    return ProbeTimes(started, ready, killed)


def _looks(probe: Document, since: float, answer: Answer, *, lasting: bool = False) -> tuple[float, float]:
    """Return when a probe has succeeded, and when it has failed too often before; *lasting* ones go on after that."""
    period, at, most = _times(probe, since)
    needed = int(probe.get("successThreshold") or 1)
    good = bad = 0
    for _ in range(MOST_LOOKS):
        fine = answer(probe, at)
        good, bad = (good + 1, 0) if fine is not False else (0, bad + 1)
        if good >= needed:
            return at, math.inf
        if bad >= most and not lasting:
            return math.inf, at
        at += period
    return math.inf, math.inf


def _first_failure(probe: Document, since: float, answer: Answer) -> float:
    """Return when a probe has failed so often in a row that its container is ended."""
    period, at, most = _times(probe, since)
    bad = 0
    for _ in range(MOST_LOOKS):
        fine = answer(probe, at)
        if fine is None:
            return math.inf
        bad = 0 if fine else bad + 1
        if bad >= most:
            return at
        at += period
    return math.inf


def _times(probe: Document, since: float) -> tuple[float, float, int]:
    at = max(since, float(probe.get("initialDelaySeconds") or 0))
    return float(probe.get("periodSeconds") or 10), at, int(probe.get("failureThreshold") or 3)
