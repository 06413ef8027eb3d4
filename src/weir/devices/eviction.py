"""Eviction time of a claim's pods, and the taints that cause it.

Spec: KEP-5055 "Eviction", dra.md 2.5 "Eviction time", 7.2–7.4; D-07, D-18, D-19.
Toleration seconds count from the taint's timeAdded, not from the pod's start. Of the tolerations that match a taint,
one without seconds wins, otherwise the shortest; for node taints only the first match counts. Only the tolerations
copied into the allocation are read. tolerationSeconds applies only with the effect NoExecute, or in an expression;
with an empty effect the taint is tolerated for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from weir.caches import bounded
from weir.devices.claims import claims_of, reserved_for
from weir.devices.origin import RuleOrigin, SliceOrigin, TrackedTaint
from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.resource import DeviceID, DeviceTaint, DeviceToleration, ResourceClaim
from weir.objects.times import TimeError, parse_time
from weir.taints.toleration import EVICTING, Evaluate, tolerates

#: Later than anything that happens; sums beyond what a datetime holds end here.
LATEST: Final = datetime.max.replace(tzinfo=UTC)
_LONGEST_SECONDS: Final = int(timedelta.max.total_seconds()) // 2


@dataclass(frozen=True, slots=True)
class Reason:
    """One taint that makes a claim's pods leave, and when it alone would."""

    taint: TrackedTaint
    due: datetime

    def __str__(self) -> str:
        return str(self.taint.origin)


@dataclass(frozen=True, slots=True)
class Eviction:
    """When pods must be evicted, and every taint that requires it."""

    at: datetime
    reasons: tuple[Reason, ...]

    def due_reasons(self, now: datetime) -> tuple[Reason, ...]:
        """Return the taints whose eviction is due."""
        return tuple(reason for reason in self.reasons if reason.due <= now)


def leave_at(
    taint: DeviceTaint,
    tolerations: Sequence[DeviceToleration],
    gates: Gates,
    first_seen: datetime,
    evaluate: Evaluate | None = None,
) -> datetime | None:
    """Return when *taint* ends the use of a device allocated with *tolerations*; None: never.

    *first_seen* stands in for a missing timeAdded.

    >>> hot = DeviceTaint("hot", "", "NoExecute", "2026-01-01T12:00:00Z")
    >>> str(leave_at(hot, [DeviceToleration("hot", "Exists", "", "NoExecute", 300)], Gates(), LATEST))
    '2026-01-01 12:05:00+00:00'
    """
    if taint.effect not in EVICTING:
        return None
    added = moment(taint.time_added) or first_seen
    plain = taint.plain
    shortest: int | None = None
    for entry in tolerations:
        if not tolerates(entry, plain, gates, evaluate):
            continue
        if entry.toleration_seconds is None or not (entry.effect in EVICTING or entry.expression):
            return None
        seconds = max(entry.toleration_seconds, 0)
        shortest = seconds if shortest is None else min(shortest, seconds)
    return _later(added, shortest or 0)


@bounded(4096)
def moment(text: str | None) -> datetime | None:
    """Return the moment a time of the API names; None when there is none to read."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(parse_time(text))
    except (TimeError, ValueError):
        return None


def _later(start: datetime, seconds: int) -> datetime:
    if seconds > _LONGEST_SECONDS:
        return LATEST
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return LATEST


def claim_eviction(
    claim: ResourceClaim,
    taints_on: Callable[[DeviceID], Iterable[TrackedTaint]],
    gates: Gates,
    first_seen: datetime,
    evaluate: Evaluate | None = None,
) -> Eviction | None:
    """Return when the pods that use *claim* must leave, or None when nothing makes them.

    *taints_on* returns the taints of an allocated device (weir.devices.tracker.Tracker.taints_on).
    """
    due: dict[int, Reason] = {}
    for result in claim.results:
        for taint in taints_on(result.id):
            at = leave_at(taint.taint, result.tolerations or (), gates, first_seen, evaluate)
            # One rule may hit several devices of a claim: it is one reason, with its earliest time.
            if at is not None and (taint.id not in due or at < due[taint.id].due):
                due[taint.id] = Reason(taint, at)
    return _merged(due.values())


def pod_eviction(
    pod: Pod, claims: Mapping[str, ResourceClaim], evictions: Mapping[str, Eviction]
) -> Eviction | None:
    """Return when *pod* must leave, or None; *claims* and their *evictions* are by `namespace/name`.

    A pod is concerned only where it runs: on a node, neither ending nor ended, with the claim reserved for it.
    """
    if not pod.spec.node_name or pod.metadata.deletion_timestamp is not None or pod.terminated:
        return None
    due: dict[int, Reason] = {}
    for use in claims_of(pod, claims):
        if use.claim is None or not reserved_for(use.claim, pod):
            continue
        found = evictions.get(use.claim.key)
        for reason in found.reasons if found else ():
            if reason.taint.id not in due or reason.due < due[reason.taint.id].due:
                due[reason.taint.id] = reason
    return _merged(due.values())


def _merged(reasons: Iterable[Reason]) -> Eviction | None:
    ordered = sorted(reasons, key=_order)
    return Eviction(min(reason.due for reason in ordered), tuple(ordered)) if ordered else None


def _order(reason: Reason) -> tuple[object, ...]:
    """Rules by name, then drivers' taints by device and position."""
    origin = reason.taint.origin
    if isinstance(origin, RuleOrigin):
        return 0, origin.name
    assert isinstance(origin, SliceOrigin)
    return 1, *origin.device, origin.form, origin.index
