"""Time that a pod may stay on a node with NoExecute taints.

Spec: KEP-5471 "Eviction", and the taint eviction controller's rule for tolerationSeconds: per taint only the first
tolerating entry counts, and the shortest of their times wins. tolerationSeconds bounds a toleration that *matches*.
When a value stops matching, the pod is deleted at once, without grace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from weir.gates import Gates
from weir.objects.core import Taint, Toleration
from weir.taints.toleration import EVICTING, Evaluate, find_tolerating

NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class Stay:
    """How long a pod may stay, and what decided it."""

    limit: timedelta | None  #: None: for ever; zero: not at all
    taint: Taint | None = None  #: the taint that decided
    toleration: Toleration | None = None  #: the entry whose seconds decided; None when nothing tolerates

    @property
    def for_ever(self) -> bool:
        return self.limit is None


def stay(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    gates: Gates,
    evaluate: Evaluate | None = None,
) -> Stay:
    """Return how long a pod with *tolerations* may stay under *taints*.

    >>> from weir.gates import ALL_FEATURES
    >>> flaky = Taint("failure-probability", "2", "NoExecute")
    >>> stay([flaky], [Toleration("failure-probability", "Lt", "5", "NoExecute", 30)], ALL_FEATURES).limit
    datetime.timedelta(seconds=30)
    """
    shortest = Stay(None)
    for taint in taints:
        if taint.effect not in EVICTING:
            continue
        toleration = find_tolerating(tolerations, taint, gates, evaluate)
        if toleration is None:
            return Stay(NO_TIME, taint)
        if toleration.toleration_seconds is None:
            continue
        # A negative time means zero; days beyond what timedelta holds mean for ever in practice.
        limit = timedelta(seconds=min(max(toleration.toleration_seconds, 0), _LONGEST_SECONDS))
        if shortest.limit is None or limit < shortest.limit:
            shortest = Stay(limit, taint, toleration)
    return shortest


_LONGEST_SECONDS = int(timedelta.max.total_seconds()) // 2
