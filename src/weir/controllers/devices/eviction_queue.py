"""Whose turn is it to leave? Pods whose time is up, in order, as fast as their taints allow.

Spec: dra.md 7.5 "Rate limiting"; D-10. Pods that leave because of the same taints share one answer, so only the first
of them is asked about: thousands may wait for one rule. Pods that share no taint never wait for each other.
Not here: how fast (weir.devices.rate), the deletion (weir.controllers.devices.taint_eviction_steps).
"""

from __future__ import annotations

from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from weir.devices.eviction import Eviction, Reason
from weir.devices.rate import EvictionRate

_Taints = frozenset[int]
#: Unused buckets are looked through when there are this many.
MANY_BUCKETS = 1000


class PodKey(NamedTuple):
    """One instance of a pod: another one of the same name is not meant."""

    namespace: str
    name: str
    uid: str


class _Place(NamedTuple):
    """Where a pod stands: the earliest time first, then by name."""

    due: datetime
    pod: PodKey


class _Group:
    """Pods that leave because of the same taints."""

    __slots__ = ("places", "reasons")

    def __init__(self) -> None:
        self.reasons: tuple[Reason, ...] = ()
        self.places: list[_Place] = []


class EvictionQueue:
    """The pods whose time is up."""

    def __init__(self) -> None:
        self.rate = EvictionRate()
        self._groups: dict[_Taints, _Group] = {}
        self._standing: dict[PodKey, tuple[_Taints, _Place]] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def line_up(self, pod: PodKey, eviction: Eviction, now: datetime) -> None:
        """Let a pod wait for its turn; it keeps its place unless its time or its taints are others now."""
        reasons = eviction.due_reasons(now)
        taints = frozenset(reason.taint.id for reason in reasons)
        place = _Place(eviction.at, pod)
        group = self._groups.setdefault(taints, _Group())
        group.reasons = reasons  # an edited rule goes on with its new rate
        if self._standing.get(pod) != (taints, place):
            self._standing[pod] = (taints, place)
            heappush(group.places, place)

    def leave(self, pod: PodKey) -> None:
        """A pod no longer waits, whatever the reason."""
        self._standing.pop(pod, None)

    def next(self, now: datetime) -> tuple[list[PodKey], datetime | None]:
        """Return the pods whose turn it is at *now*, and when to ask again (None: nobody is left)."""
        if len(self.rate) > MANY_BUCKETS:
            self.rate.forget_full(now)
        heads = [
            (place, taints) for taints in list(self._groups) if (place := self._head(taints)) is not None
        ]
        heapify(heads)
        turn: list[PodKey] = []
        again: datetime | None = None
        while heads:
            place, taints = heappop(heads)
            group = self._groups[taints]
            wait = self.rate.admit(group.reasons, now)
            if wait is not None:
                again = wait if again is None else min(again, wait)
                continue
            heappop(group.places)
            del self._standing[place.pod]
            turn.append(place.pod)
            following = self._head(taints)
            if following is not None:
                heappush(heads, (following, taints))
        return turn, again

    def _head(self, taints: _Taints) -> _Place | None:
        places = self._groups[taints].places
        while places:
            if self._standing.get(places[0].pod) == (taints, places[0]):
                return places[0]
            heappop(places)  # it left, or stands elsewhere
        del self._groups[taints]
        return None
