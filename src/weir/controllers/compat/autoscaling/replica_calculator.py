"""Replica calculation for one metric, with upstream's arithmetic as pure functions.

desired = ceil(ready pods × current / target)

unless the ratio is within the tolerance of 1. Pods without metrics and pods that are not ready are left out first; if
the rest would scale up they count as using nothing, if it would scale down those without metrics count as using their
full request; if that reverses the direction, nothing changes. All amounts are in thousandths, as the API server's
quantities are rounded to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

CPU_INITIALIZATION: Final = timedelta(minutes=5)
INITIAL_READINESS_DELAY: Final = timedelta(seconds=30)
TOLERANCE: Final = 0.1
_MOST: Final = 2**31 - 1


class MetricError(Exception):
    """Why a metric gives no number of replicas, in upstream's words."""


@dataclass(frozen=True)
class Tolerances:
    """How far the ratio of use to target may be from 1 before anything changes."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def is_within(self, ratio: float) -> bool:
        """Return whether the change would be too small.

        >>> Tolerances().is_within(1.1), Tolerances().is_within(1.11)
        (True, False)
        """
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True)
class PodState:
    """What counts of a pod of the scale target."""

    name: str
    phase: str = "Running"
    deleting: bool = False
    ready: bool | None = True  #: the status of its condition Ready; None when it has none
    ready_since: datetime | None = None  #: when that last changed
    started: datetime | None = None
    requests: Mapping[str, Mapping[str, int]] | None = None  #: container → resource → thousandths
    pod_requests: Mapping[str, int] | None = None  #: of the pod as a whole, where it has such


@dataclass(frozen=True)
class Sample:
    """What one pod used, when that was measured, and over which time."""

    value: int
    at: datetime
    window: timedelta = timedelta(0)


@dataclass(frozen=True)
class Proposal:
    """The replicas a metric proposes, and its current value."""

    replicas: int
    value: int  #: thousandths, on average
    utilization: int | None = None  #: percent of the request


@dataclass(frozen=True)
class Groups:
    """The pods of a target, grouped by how their metrics count."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def group_pods(
    pods: Iterable[PodState], samples: Mapping[str, Sample], resource: str, now: datetime
) -> Groups:
    """Return which pods count, which are not ready, which have no metrics and which are on their way out."""
    ready, unready, missing, ignored = 0, set(), set(), set()
    for pod in pods:
        if pod.deleting or pod.phase == "Failed":
            ignored.add(pod.name)
        elif pod.phase == "Pending":
            unready.add(pod.name)
        elif pod.name not in samples:
            missing.add(pod.name)
        elif resource == "cpu" and _is_starting(pod, samples[pod.name], now):
            unready.add(pod.name)
        else:
            ready += 1
    return Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: PodState, sample: Sample, now: datetime) -> bool:
    """Return whether a pod's CPU says nothing yet: it has just started, or has never been ready."""
    if pod.ready is None or pod.started is None:
        return True
    since = pod.ready_since or datetime.min.replace(tzinfo=now.tzinfo)
    if pod.started + CPU_INITIALIZATION > now:
        return not pod.ready or sample.at < since + sample.window
    return not pod.ready and pod.started + INITIAL_READINESS_DELAY > since


def utilization_replicas(
    current: int,
    target_percent: int,
    resource: str,
    pods: list[PodState],
    samples: Mapping[str, Sample],
    tolerances: Tolerances,
    now: datetime,
    container: str = "",
) -> Proposal:
    """Return the replicas that bring the use of *resource* to *target_percent* of what the pods request."""
    kept, groups = _counted(pods, samples, resource, now)
    requests = {pod.name: _request(pod, container, resource) for pod in pods}
    ratio, percent, value = _utilization(kept, requests, target_percent)

    def ratio_of(values: Mapping[str, int]) -> float:
        return _utilization(values, requests, target_percent)[0]

    full = max(100, target_percent)
    replicas = _replicas(
        current, ratio, kept, groups, tolerances, ratio_of, lambda name: requests[name] * full // 100
    )
    return Proposal(replicas, value, percent)


def average_replicas(
    current: int,
    target: int,
    resource: str,
    pods: list[PodState],
    samples: Mapping[str, Sample],
    tolerances: Tolerances,
    now: datetime,
) -> Proposal:
    """Return the replicas that bring the average of a metric to *target* thousandths; it need be no *resource*."""
    kept, groups = _counted(pods, samples, resource, now)

    def ratio_of(values: Mapping[str, int]) -> float:
        return sum(values.values()) // len(values) / target

    replicas = _replicas(current, ratio_of(kept), kept, groups, tolerances, ratio_of, lambda name: target)
    return Proposal(replicas, sum(kept.values()) // len(kept))


def total_replicas(current: int, ratio: float, pods: list[PodState], tolerances: Tolerances) -> int:
    """Return the replicas for a metric that is not about the pods and is at *ratio* times its target."""
    if current == 0:
        return math.ceil(ratio)
    if tolerances.is_within(ratio):
        return current
    if not pods:
        raise MetricError(
            "unable to calculate ready pods: no pods returned by selector while calculating replica count"
        )
    ready = sum(pod.phase == "Running" and pod.ready is True for pod in pods)
    return min(math.ceil(ratio * ready), _MOST)


def per_pod_replicas(current: int, target: int, total: int, tolerances: Tolerances) -> Proposal:
    """Return the replicas among which *total* is *target* each; both in thousandths."""
    ratio = total / (target * current) if current else math.inf
    replicas = current if tolerances.is_within(ratio) else min(math.ceil(total / target), _MOST)
    return Proposal(replicas, math.ceil(total / current) if current else total)


# ── the parts that utilization and averages share ────────────────────────────────────────────────


def _counted(
    pods: list[PodState], samples: Mapping[str, Sample], resource: str, now: datetime
) -> tuple[dict[str, int], Groups]:
    if not pods:
        raise MetricError("no pods returned by selector while calculating replica count")
    groups = group_pods(pods, samples, resource, now)
    left_out = groups.unready | groups.ignored
    kept = {name: sample.value for name, sample in samples.items() if name not in left_out}
    if not kept:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    return kept, groups


def _replicas(
    current: int,
    ratio: float,
    kept: Mapping[str, int],
    groups: Groups,
    tolerances: Tolerances,
    ratio_of: Callable[[Mapping[str, int]], float],
    fallback: Callable[[str], int],
) -> int:
    """Return the replicas for *ratio*; pods that say nothing count so that they hold a change back."""
    up_with_unready = bool(groups.unready) and ratio > 1.0
    if not up_with_unready and not groups.missing:
        return current if tolerances.is_within(ratio) else math.ceil(ratio * groups.ready)
    values = dict(kept)
    if ratio < 1.0:
        values.update((name, fallback(name)) for name in groups.missing)
    elif ratio > 1.0:
        values.update(dict.fromkeys(groups.missing, 0))
    if up_with_unready:
        values.update(dict.fromkeys(groups.unready, 0))
    again = ratio_of(values)
    if tolerances.is_within(again) or (ratio < 1.0 < again) or (ratio > 1.0 > again):
        return current
    replicas = math.ceil(again * len(values))
    if (again < 1.0 and replicas > current) or (again > 1.0 and replicas < current):
        return current
    return replicas


def _utilization(
    values: Mapping[str, int], requests: Mapping[str, int], target_percent: int
) -> tuple[float, int, int]:
    """Return the ratio to the target, the percentage of the requests and the average value."""
    known = [name for name in values if name in requests]
    used, asked = sum(values[name] for name in known), sum(requests[name] for name in known)
    if asked == 0:
        raise MetricError("no metrics returned matched known pods")
    percent = used * 100 // asked
    return percent / target_percent, percent, used // len(known)


def _request(pod: PodState, container: str, resource: str) -> int:
    if pod.pod_requests is not None and not container:
        if resource not in pod.pod_requests:
            raise MetricError(f"missing pod-level request for {resource} in Pod {pod.name}")
        return pod.pod_requests[resource]
    total = 0
    for name, requests in (pod.requests or {}).items():
        if container in ("", name):
            if resource not in requests:
                raise MetricError(f"missing request for {resource} in container {name} of Pod {pod.name}")
            total += requests[resource]
        if container == name:
            return total
    if container:
        raise MetricError(f"container {container} not found in Pod {pod.name}")
    return total
