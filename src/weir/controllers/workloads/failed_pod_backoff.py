"""Backoff for replacing failed pods: the first at once, then with doubling delays.

A kubelet may reject every pod of a workload (different feature gates, changed labels), and a pod may be evicted
before it starts each time; replaced at once, that is a hot loop. Where failed pods remain (ReplicaSets) they are the
record; otherwise the count is kept here. Kubernetes' ReplicaSet and StatefulSet controllers have no such backoff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from weir.controllers.runtime.views import Pod, parse_time

FIRST: Final = timedelta(seconds=1)
LONGEST: Final = timedelta(minutes=15)


class Replacements:
    """How often failed pods were replaced, by workload (uid) and place (node or name)."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], tuple[datetime, timedelta]] = {}  # not before, pause after that

    def may(self, uid: str, place: str, now: datetime) -> datetime | None:
        """Return None when a failed pod may be replaced now (and count it), else when it may."""
        not_before, pause = self._next.get((uid, place), (now, FIRST))
        if now < not_before:
            return not_before
        if now - not_before > 2 * LONGEST:
            pause = FIRST
        self._next[uid, place] = (now + pause, min(pause * 2, LONGEST))
        return None

    def forget(self, uid: str) -> None:
        """The workload is gone."""
        for key in [key for key in self._next if key[0] == uid]:
            del self._next[key]


class EarlyLosses:
    """How often pods of a workload (uid) were evicted before they ever ran: waiting, or rejected by the kubelet.

    A workload that has a pod for each place (a DaemonSet's nodes) is counted by place.
    """

    def __init__(self, place_of: Callable[[Pod], str] = lambda pod: "") -> None:
        self._place_of = place_of
        self._lost: dict[str, dict[str, tuple[int, datetime]]] = {}  # how often in a row, when last

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a change of a pod: one that was lost early counts, one that becomes ready ends the counting.

        It counts when it begins to leave: a ReplicaSet replaces a pod from then on. Another write to a pod that is
        ready says nothing about those that are lost.
        """
        lost = self._lost.get(new.controller_uid) if new is not None and self._lost else None
        if new is not None and lost is not None and new.ready and (old is None or not old.ready):
            lost.pop(self._place_of(new), None)
        leaves = new is None or new.deleting
        if old is None or old.deleting or not leaves:
            return
        early = old.status.phase in ("", "Pending") or is_rejected(old)
        if not early or not old.controller_uid:
            return
        seen = old if new is None else new
        target = seen.status.condition("DisruptionTarget")
        at = parse_time(target.last_transition_time) if target is not None else None
        if at is not None:
            places, place = self._lost.setdefault(old.controller_uid, {}), self._place_of(seen)
            times, last = places.get(place, (0, at))
            places[place] = (times + 1 if at - last < 2 * LONGEST else 1, at)

    def until(self, uid: str, now: datetime, place: str = "") -> datetime | None:
        """Return until when the workload had better make no more pods there; None when it may now."""
        times, last = self._lost.get(uid, {}).get(place, (0, now))
        if not times:
            return None
        until = last + min(FIRST * (1 << min(times - 1, 20)), LONGEST)
        return until if until > now else None

    def forget(self, uid: str) -> None:
        """The workload is gone."""
        self._lost.pop(uid, None)


def is_rejected(pod: Pod) -> bool:
    """Return whether a kubelet would not have the pod at all."""
    status = pod.status
    return status.phase == "Failed" and bool(status.reason) and not status.container_statuses


def not_before(pods: Iterable[Pod], now: datetime) -> datetime | None:
    """Return until when a workload whose pods were rejected should create no more; None when it may now."""
    times = [parse_time(pod.metadata.creation_timestamp) for pod in pods if is_rejected(pod)]
    recent = [at for at in times if at is not None and now - at < 2 * LONGEST]
    if not recent:
        return None
    until = max(recent) + min(FIRST * (1 << min(len(recent) - 1, 20)), LONGEST)
    return until if until > now else None
