"""Eviction loops: workloads whose pods are evicted, rescheduled and evicted again, as far as was looked.

A chain of replacements is a loop after ROUNDS evictions in a row for a reason that does not go away by itself, or as
soon as the replacement is due for the same taint after the same time: long tolerations leave no time for more rounds.
A loop that has come to an end (a Job that gave up, a taint that was removed) is none.
Which pod replaces which is in weir.whatif.history, when loops end the look-ahead in weir.whatif.horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from statistics import median
from typing import Final

from weir.whatif.history import Cause, History, PodLife, Why, after

#: So often in a row a pod and those made in its place must be evicted before it counts as a loop.
ROUNDS: Final = 4
DRIVEN: Final = frozenset({Why.TAINT, Why.DEVICE_TAINT, Why.REFUSED, Why.PREEMPTED})
#: What can happen to a pod and its replacements again and again: also that its owner deletes and creates them.
_TURNING: Final = DRIVEN | {Why.EVICTED, Why.OWNER}

WorkloadOf = Callable[[PodLife], str]


@dataclass(frozen=True)
class EvictionLoop:
    """A workload whose pods are evicted, replaced and evicted again, as far as was looked."""

    workload: str
    nodes: tuple[str, ...]
    every: timedelta
    pods: int  #: how many of them at a time
    rounds: int
    cause: Cause
    slower: bool  #: whether each round takes longer than the one before
    other_nodes: tuple[str, ...] = ()  #: nodes that would take its pods and keep them: the loop may end there


def find_eviction_loops(history: History, workload_of: WorkloadOf) -> list[EvictionLoop]:
    """Return the workloads whose pods are evicted again and again; *history* must be paired."""
    replacements = {life.instead.uid for life in history.lives.values() if life.instead is not None}
    loops: dict[str, list[EvictionLoop]] = {}
    for life in history.lives.values():
        if life.uid in replacements:
            continue
        evicted, last = _evictions_in_a_row(life)
        times = [each.left or 0.0 for each in evicted]
        due = _due_again(history, evicted, last)
        if due is not None:
            times.append(due)
            evicted.append(last)
        elif len(evicted) < ROUNDS:
            continue
        recent, times = evicted[-ROUNDS:], times[-ROUNDS:]
        gaps = [b - a for a, b in pairwise(times)]
        ended = history.last_seen - times[-1] > 3 * max(gaps[-1], 1.0)
        if ended and life.owner_uid not in history.suspended:
            continue  # it has come to an end: a Job that gave up, a taint that was taken away
        cause = next(each.cause for each in reversed(recent) if each.cause is not None)
        loop = EvictionLoop(
            workload_of(life),
            tuple(dict.fromkeys(one.node for one in recent if one.node)),
            after(median(gaps)),
            1,
            len(evicted) - (due is not None),
            cause,
            slower=len(gaps) > 1 and all(b > 1.5 * a for a, b in pairwise(gaps)),
        )
        loops.setdefault(loop.workload, []).append(loop)
    return [_together(each) for _, each in sorted(loops.items())]


def _evictions_in_a_row(life: PodLife) -> tuple[list[PodLife], PodLife]:
    """Return the latest evictions in a row of a pod and those made in its place, and the last of these."""
    evicted: list[PodLife] = []
    each = life
    while True:
        if each.left is not None and each.left >= 0 and each.cause is not None and each.cause.why in _TURNING:
            evicted.append(each)
        elif each.left is not None:
            evicted = []
        if each.instead is None:
            return evicted, each
        each = each.instead


def _due_again(history: History, evicted: list[PodLife], last: PodLife) -> float | None:
    """Return when the *last* of a chain is evicted for what evicted the one before it, None if it is not."""
    due = history.due.get(last.key) if last.left is None else None
    if due is None or not evicted or last.owner.startswith("Job/"):  # a Job gives up some day
        return None
    before = evicted[-1].cause
    if before is None or before.taint is None:
        return None
    return due if history.coming_cause(last, before.why).say(where=False) == before.say(where=False) else None


def with_other_nodes(
    loop: EvictionLoop,
    history: History,
    workload_of: WorkloadOf,
    fitting: Callable[[PodLife], Iterable[str]],
) -> EvictionLoop:
    """Return a loop with the nodes that would keep its pods, of those *fitting* one by the scheduler's filters."""
    if loop.cause.why is not Why.TAINT:
        return loop
    lives = [life for life in history.lives.values() if workload_of(life) == loop.workload]
    latest = max(lives, key=lambda life: life.came)
    nodes = (name for name in fitting(latest) if name not in loop.nodes and history.keeps(name, latest))
    return replace(loop, other_nodes=tuple(sorted(nodes)))


def _together(loops: list[EvictionLoop]) -> EvictionLoop:
    first = max(loops, key=lambda each: each.rounds)
    nodes = dict.fromkeys(node for each in loops for node in each.nodes)
    return EvictionLoop(
        first.workload,
        tuple(sorted(nodes)),
        first.every,
        sum(each.pods for each in loops),
        sum(c.rounds for c in loops),
        first.cause,
        first.slower,
    )
