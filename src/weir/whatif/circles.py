"""Who goes in circles? Pods that have to go, are made again and have to go again, as far as was looked.

Followed from pod to pod made in its place: so many in a row that had to go for a reason that does not go away by itself
are a circle. What surprises: one that has come to an end meanwhile is none, a Job's that gave up as little as one whose
taint was taken away.
Not here: which pod was made in whose place (weir.whatif.history), when circles end the looking (weir.whatif.horizon).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Final

from weir.whatif.history import Cause, History, PodLife, Why, after

#: So often in a row a pod and those made in its place must be driven out before it is called a circle.
ROUNDS: Final = 4
DRIVEN: Final = frozenset({Why.TAINT, Why.DEVICE_TAINT, Why.REFUSED, Why.PREEMPTED})
#: What can happen to a pod and those made in its place again and again: also that its owner cannot make up its mind.
_TURNING: Final = DRIVEN | {Why.EVICTED, Why.OWNER}

WorkloadOf = Callable[[PodLife], str]


@dataclass(frozen=True)
class Circle:
    """Pods of a workload that have to go, are made again and have to go again, as far as was looked."""

    workload: str
    nodes: tuple[str, ...]
    every: timedelta
    pods: int  #: how many of them at a time
    rounds: int
    cause: Cause
    slower: bool  #: whether each round takes longer than the one before


def find_circles(history: History, workload_of: WorkloadOf) -> list[Circle]:
    """Return the workloads whose pods are driven out again and again; *history* must be paired."""
    instead = {life.instead.uid for life in history.lives.values() if life.instead is not None}
    found: dict[str, list[Circle]] = {}
    for life in history.lives.values():
        if life.uid in instead:
            continue
        driven: list[PodLife] = []
        each: PodLife | None = life
        while each is not None:
            if (
                each.left is not None
                and each.left >= 0
                and each.cause is not None
                and each.cause.why in _TURNING
            ):
                driven.append(each)
            elif each.left is not None:
                driven = []
            each = each.instead
        if len(driven) < ROUNDS:
            continue
        recent = driven[-ROUNDS:]
        times = [one.left or 0.0 for one in recent]
        gaps = [b - a for a, b in pairwise(times)]
        ended = history.last_seen - times[-1] > 3 * max(gaps[-1], 1.0)
        if ended and life.owner_uid not in history.suspended:
            continue  # it has come to an end: a Job that gave up, a taint that was taken away
        cause = recent[-1].cause
        assert cause is not None
        circle = Circle(
            workload_of(life),
            tuple(dict.fromkeys(one.node for one in recent if one.node)),
            after(median(gaps)),
            1,
            len(driven),
            cause,
            slower=all(b > 1.5 * a for a, b in pairwise(gaps)),
        )
        found.setdefault(circle.workload, []).append(circle)
    return [_together(circles) for _, circles in sorted(found.items())]


def _together(circles: list[Circle]) -> Circle:
    first = max(circles, key=lambda each: each.rounds)
    nodes = dict.fromkeys(node for each in circles for node in each.nodes)
    return Circle(
        first.workload,
        tuple(sorted(nodes)),
        first.every,
        sum(each.pods for each in circles),
        sum(c.rounds for c in circles),
        first.cause,
        first.slower,
    )
