"""Times at which the probes of a container make it started, ready or restarted.

Spec: core/v1 Probe; the numbers that are not set are Kubernetes' defaults. When a probe succeeds is declared
(weir.simulation.kubelet.behaviour); a container that was ready stays ready until it exits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

Document = Mapping[str, Any]
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


class ProbeTimes(NamedTuple):
    """Seconds after a container's start."""

    started: float = 0.0  #: when its startup probe has succeeded
    ready: float = 0.0
    killed: float = math.inf  #: when a startup or liveness probe has failed too often


def probe_times(
    container: Document,
    *,
    startup_from: float = 0.0,
    ready_from: float = 0.0,
    healthy_until: float = math.inf,
) -> ProbeTimes:
    """Return when a container is started, ready and killed whose probes succeed from or until a number of seconds.

    >>> probe_times({"readinessProbe": {"initialDelaySeconds": 30}})
    ProbeTimes(started=0.0, ready=30.0, killed=inf)
    """
    started, killed = 0.0, math.inf
    if (startup := container.get("startupProbe")) is not None:
        started = _succeeded(startup, 0.0, startup_from)
        if (failed := _failed(startup, 0.0, 0.0)) < started:
            return ProbeTimes(math.inf, math.inf, failed)
    ready = started
    if (readiness := container.get("readinessProbe")) is not None:
        ready = _succeeded(readiness, started, ready_from)
    if (liveness := container.get("livenessProbe")) is not None:
        killed = _failed(liveness, started, healthy_until)
    return ProbeTimes(started, ready, killed)


def _succeeded(probe: Document, since: float, at: float) -> float:
    """Return when a probe that succeeds from *at* on has succeeded often enough."""
    return _run_at(probe, since, at) + (int(probe.get("successThreshold") or 1) - 1) * _period(probe)


def _failed(probe: Document, since: float, at: float) -> float:
    """Return when a probe that fails from *at* on has failed so often that its container is killed."""
    return _run_at(probe, since, at) + (int(probe.get("failureThreshold") or 3) - 1) * _period(probe)


def _run_at(probe: Document, since: float, at: float) -> float:
    """Return the first time from *at* on at which the probe runs."""
    first = max(since, float(probe.get("initialDelaySeconds") or 0))
    return first + max(math.ceil((at - first) / _period(probe)), 0) * _period(probe) if at < math.inf else at


def _period(probe: Document) -> float:
    return float(probe.get("periodSeconds") or 10)
