"""Rate-limited queue of pods that are due for device taint eviction.

Spec: dra.md 7.5 "Rate limiting"; D-10. Pods evicted because of the same taints form one group, and only the head of a
group is checked against the rate limit: thousands may wait for one rule. Pods that share no taint never wait for each
other. The rates are in weir.devices.rate.
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


class _Entry(NamedTuple):
    """Where a pod stands: the earliest time first, then by name."""

    due: datetime
    pod: PodKey


class _Group:
    """Pods that leave because of the same taints."""

    __slots__ = ("entries", "reasons")

    def __init__(self) -> None:
        self.reasons: tuple[Reason, ...] = ()
        self.entries: list[_Entry] = []


class EvictionQueue:
    """The pods whose eviction time has passed."""

    def __init__(self) -> None:
        self.rate = EvictionRate()
        self._groups: dict[_Taints, _Group] = {}
        self._queued: dict[PodKey, tuple[_Taints, _Entry]] = {}

    def __len__(self) -> int:
        return len(self._queued)

    def line_up(self, pod: PodKey, eviction: Eviction, now: datetime) -> None:
        """Let a pod wait for its turn; it keeps its place unless its time or its taints are others now."""
        reasons = eviction.due_reasons(now)
        taints = frozenset(reason.taint.id for reason in reasons)
        entry = _Entry(eviction.at, pod)
        group = self._groups.setdefault(taints, _Group())
        group.reasons = reasons  # an edited rule goes on with its new rate
        if self._queued.get(pod) != (taints, entry):
            self._queued[pod] = (taints, entry)
            heappush(group.entries, entry)

    def leave(self, pod: PodKey) -> None:
        """A pod no longer waits, whatever the reason."""
        self._queued.pop(pod, None)

    def next(self, now: datetime) -> tuple[list[PodKey], datetime | None]:
        """Return the pods that may be evicted at *now*, and when to call again (None: the queue is empty)."""
        if len(self.rate) > MANY_BUCKETS:
            self.rate.forget_full(now)
        heads = [
            (entry, taints) for taints in list(self._groups) if (entry := self._head(taints)) is not None
        ]
        heapify(heads)
        turn: list[PodKey] = []
        again: datetime | None = None
        while heads:
            entry, taints = heappop(heads)
            group = self._groups[taints]
            wait = self.rate.admit(group.reasons, now)
            if wait is not None:
                again = wait if again is None else min(again, wait)
                continue
            heappop(group.entries)
            del self._queued[entry.pod]
            turn.append(entry.pod)
            following = self._head(taints)
            if following is not None:
                heappush(heads, (following, taints))
        return turn, again

    def _head(self, taints: _Taints) -> _Entry | None:
        entries = self._groups[taints].entries
        while entries:
            if self._queued.get(entries[0].pod) == (taints, entries[0]):
                return entries[0]
            heappop(entries)  # it left, or stands elsewhere
        del self._groups[taints]
        return None
