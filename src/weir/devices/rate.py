"""Eviction rate limit per device taint.

Spec: KEP-5055 "Rate limiting", dra.md 7.5; D-10. Each taint that evicts has a bucket of ten tokens that refills at
its `evictionsPerSecond`. A pod may be evicted when one of its taints has a token, and takes one from each of them, so
the fastest taint decides and rates do not add up. Buckets are keyed by taint ID, so an edited rule keeps its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from weir.devices.eviction import Reason

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
