"""Replicas that one metric proposes, and the limits within which a proposal is followed: upstream's arithmetic.

desired = ceil(ready pods × current / target)

unless the ratio is within the tolerance of 1. Pods without metrics and pods that are not ready are left out first; if
the rest would scale up they count as using nothing, if it would scale down those without metrics count as using their
full request; if that reverses the direction, nothing changes. All amounts are in thousandths, as the API server's
quantities are rounded to.

Without `behavior`: clamped to minReplicas and maxReplicas, at most doubled (or four) per sync, and scaled down only
to the highest recommendation of the last five minutes. With `behavior`, each direction's policies limit the pods or
percent per period, and each direction has its own stabilization window. Pure functions; past recommendations and
scale events are a `ScalingHistory`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

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


DOWNSCALE_STABILIZATION: Final = timedelta(minutes=5)
UP_FACTOR: Final = 2
UP_MINIMUM: Final = 4

_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_FAST_UP: Final = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_FAST_DOWN: Final = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_UP_STABILIZED: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_DOWN_STABILIZED: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
Rules = Mapping[str, Any]


@dataclass
class ScalingHistory:
    """What was recommended for one autoscaler, and how its target was scaled: each with its time."""

    recommendations: list[tuple[datetime, int]] = field(default_factory=list)
    ups: list[tuple[datetime, int]] = field(default_factory=list)
    downs: list[tuple[datetime, int]] = field(default_factory=list)

    def begin(self, now: datetime, current: int) -> None:
        """The size that is found at first counts as recommended."""
        if not self.recommendations:
            self.recommendations.append((now, current))

    def recommend(self, now: datetime, replicas: int, keep: timedelta) -> None:
        """Note a recommendation; those older than *keep* are forgotten."""
        self.recommendations = [each for each in self.recommendations if each[0] >= now - keep]
        self.recommendations.append((now, replicas))

    def scaled(self, now: datetime, before: int, after: int, behavior: Rules | None) -> None:
        """Note that the target was scaled; what no policy looks back to is forgotten."""
        if behavior is None:
            return
        way, events = ("scaleUp", self.ups) if after > before else ("scaleDown", self.downs)
        longest = max((each["periodSeconds"] for each in behavior[way].get("policies") or ()), default=0)
        events[:] = [each for each in events if each[0] >= now - timedelta(seconds=longest)]
        events.append((now, abs(after - before)))


@dataclass(frozen=True)
class Normalized:
    """How many replicas it will be, and what the conditions AbleToScale and ScalingLimited say of it."""

    replicas: int
    able: tuple[str, str]
    limited: bool
    limit: tuple[str, str]


def normalize(
    current: int,
    desired: int,
    least: int,
    most: int,
    behavior: Rules | None,
    history: ScalingHistory,
    now: datetime,
) -> Normalized:
    """Return *desired* within all limits, and note it in the history.

    >>> from datetime import UTC
    >>> normalize(2, 9, 1, 10, None, ScalingHistory(), datetime(2026, 1, 1, tzinfo=UTC)).replicas
    4
    """
    if behavior is None:
        return _normalize_without_behavior(current, desired, least, most, history, now)
    up, down = behavior["scaleUp"], behavior["scaleDown"]
    up_window = timedelta(seconds=up.get("stabilizationWindowSeconds") or 0)
    seconds = down.get("stabilizationWindowSeconds")
    down_window = DOWNSCALE_STABILIZATION if seconds is None else timedelta(seconds=seconds)
    lowest = min([desired, *(n for at, n in history.recommendations if at > now - up_window)])
    highest = max([desired, *(n for at, n in history.recommendations if at > now - down_window)])
    history.recommend(now, desired, max(up_window, down_window))
    stable = min(max(current, lowest), highest)
    able = _READY
    if stable != desired:
        able = _UP_STABILIZED if desired >= current else _DOWN_STABILIZED
    replicas, limit = stable, _WITHIN
    if stable > current:
        fastest = max(_up_limit(current, history, up, now), current)
        allowed, reason = (fastest, _FAST_UP) if most > fastest else (most, _TOO_MANY)
        if stable > allowed:
            replicas, limit = allowed, reason
    elif stable < current:
        fastest = min(_down_limit(current, history, down, now), current)
        allowed, reason = (fastest, _FAST_DOWN) if least < fastest else (least, _TOO_FEW)
        if stable < allowed:
            replicas, limit = allowed, reason
    return Normalized(replicas, able, replicas != stable, limit)


def _normalize_without_behavior(
    current: int, desired: int, least: int, most: int, history: ScalingHistory, now: datetime
) -> Normalized:
    recent = [n for at, n in history.recommendations if at >= now - DOWNSCALE_STABILIZATION]
    stable = max([desired, *recent])
    history.recommend(now, desired, DOWNSCALE_STABILIZATION)
    fastest = max(UP_FACTOR * current, UP_MINIMUM)
    allowed, reason = (fastest, _FAST_UP) if most > fastest else (most, _TOO_MANY)
    replicas, limit = stable, _WITHIN
    if stable < least:
        replicas, limit = least, _TOO_FEW
    elif stable > allowed:
        replicas, limit = allowed, reason
    able = _READY if stable == desired else _DOWN_STABILIZED
    return Normalized(replicas, able, replicas != stable, limit)


def _up_limit(current: int, history: ScalingHistory, rules: Rules, now: datetime) -> int:
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules.get("policies") or ():
        start = _at_the_start(current, history, policy["periodSeconds"], now)
        if policy["type"] == "Pods":
            proposals.append(start + policy["value"])
        else:  # rounded up, or a small target would never grow
            proposals.append(math.ceil(start * (1 + policy["value"] / 100)))
    return min(proposals) if rules.get("selectPolicy") == "Min" else max(proposals)


def _down_limit(current: int, history: ScalingHistory, rules: Rules, now: datetime) -> int:
    if rules.get("selectPolicy") == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules.get("policies") or ():
        start = _at_the_start(current, history, policy["periodSeconds"], now)
        if policy["type"] == "Pods":
            proposals.append(start - policy["value"])
        else:
            proposals.append(int(start * (1 - policy["value"] / 100)))
    return max(proposals) if rules.get("selectPolicy") == "Min" else min(proposals)


def _at_the_start(current: int, history: ScalingHistory, seconds: int, now: datetime) -> int:
    """Return how many replicas there were when the period began, as far as the autoscaler changed them."""
    since = now - timedelta(seconds=seconds)
    added = sum(change for at, change in history.ups if at > since)
    removed = sum(change for at, change in history.downs if at > since)
    return current - added + removed
