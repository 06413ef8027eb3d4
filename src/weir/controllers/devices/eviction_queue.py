"""Rate-limited queue of pods that are due for device taint eviction.

Spec: KEP-5055 "Rate limiting", dra.md 7.5 "Rate limiting"; D-10. Each taint that evicts has a bucket of ten tokens that
refills at its `evictionsPerSecond`. A pod may be evicted when one of its taints has a token, and takes one from each of
them, so the fastest taint decides and rates do not add up. Buckets are keyed by taint ID, so an edited rule keeps its
tokens. Pods evicted because of the same taints form one group, and only the head of a group is checked against the rate
limit: thousands may wait for one rule. Pods that share no taint never wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from weir.devices.eviction import Eviction, Reason

BURST: Final = 10
DEFAULT_RATE: Final = 10
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    rate: int
    at: datetime

    def refill(self, now: datetime) -> None:
        passed = (now - self.at) / timedelta(seconds=1)
        if passed > 0:
            self.tokens = min(float(BURST), self.tokens + passed * self.rate)
            self.at = now

    @property
    def ready(self) -> bool:
        return self.tokens >= 1 - 1e-9  # what is left of adding tenths

    def ready_at(self) -> datetime:
        """Return when there will be a token; never a moment before, so that waiting once is enough."""
        missing = max(0.0, 1 - self.tokens)
        return self.at + math.ceil(missing / self.rate * 1_000_000) * _MICROSECOND


class EvictionRate:
    """The buckets of all taints that pods are leaving because of."""

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, reasons: Sequence[Reason], now: datetime) -> datetime | None:
        """Let one pod go that leaves because of *reasons* (all due); None: it may go now, else when to ask again."""
        buckets = [self._bucket(reason, now) for reason in reasons]
        if buckets and not any(bucket.ready for bucket in buckets):
            return min(bucket.ready_at() for bucket in buckets)
        for bucket in buckets:
            bucket.tokens = max(0.0, bucket.tokens - 1)
        return None

    def forget_full(self, now: datetime) -> None:
        """Drop buckets that are full again: a new one is the same."""
        for number, bucket in list(self._buckets.items()):
            bucket.refill(now)
            if bucket.tokens >= BURST:
                del self._buckets[number]

    def _bucket(self, reason: Reason, now: datetime) -> _Bucket:
        rate = reason.taint.taint.evictions_per_second or DEFAULT_RATE
        bucket = self._buckets.get(reason.taint.id)
        if bucket is None:
            bucket = self._buckets[reason.taint.id] = _Bucket(float(BURST), rate, now)
        bucket.refill(now)  # at the old rate up to now
        bucket.rate = rate
        return bucket


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
