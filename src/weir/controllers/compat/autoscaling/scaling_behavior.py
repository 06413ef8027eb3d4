"""Limits, scaling policies and stabilization windows applied to the proposed replicas.

Without `behavior`: clamped to minReplicas and maxReplicas, at most doubled (or four) per sync, and scaled down only
to the highest recommendation of the last five minutes. With `behavior`, each direction's policies limit the pods or
percent per period, and each direction has its own stabilization window. Pure functions; past recommendations and
scale events are a `ScalingHistory`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

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
