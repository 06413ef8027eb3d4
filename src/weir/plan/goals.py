"""The goals of a plan held against the forecast of one wave: what breaks them, and which node is to blame."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.explain.phrases import counted, duration
from weir.plan.document import Goals
from weir.values.duration import NANOSECONDS, DurationError, parse_duration
from weir.whatif.forecast import EvictedPod, Forecast, Workload
from weir.whatif.upgrade_order import ORDER
from weir.whatif.words import title

Document = dict[str, Any]
#: Workload → its pods that are not ready, each with its node, "" for one that has none.
Unready = Mapping[str, Mapping[str, str]]
#: A pod that has run longer is expensive to move.
LONG: Final = timedelta(days=1)
#: Times in objects are whole seconds.
_WHOLE_SECOND: Final = 1.0
_CORE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "storage", "pods", "hugepages-")


class GoalError(ValueError):
    """A goal that cannot be read; `goal` is the option that sets it."""

    def __init__(self, goal: str, text: str) -> None:
        super().__init__(text)
        self.goal = goal


@dataclass(frozen=True)
class Breach:
    """One goal that a wave breaks."""

    goal: str  #: the option that sets it, `--max-pending`
    about: str  #: the workload, budget or pod
    text: str
    nodes: tuple[str, ...] = ()  #: where the pods run that it is about
    needs: float = 0.0  #: the least value of the goal that would allow it
    of: int = 0  #: how many pods the workload has


@dataclass(frozen=True)
class Pending:
    """How long a new pod waited for a node; `why` is what the scheduler says of one that still waits."""

    pod: str
    seconds: float
    why: str = ""


def unavailable(goals: Goals, replicas: int) -> int:
    """Return how many of *replicas* pods may be unavailable at once.

    >>> [unavailable(Goals(max_unavailable="25%"), n) for n in (1, 4, 5)], unavailable(Goals(max_unavailable="2"), 9)
    ([1, 1, 2], 2)
    """
    text = goals.max_unavailable
    share = text.removesuffix("%")
    if not share.isdecimal() or (text.endswith("%") and int(share) > 100):
        raise GoalError(
            "--max-unavailable", f"{text!r}: write a number of pods, like 1, or a share of them, like 25%"
        )
    return math.ceil(replicas * int(share) / 100) if text.endswith("%") else int(share)


def read_goals(
    *,
    max_pending: str = "0s",
    max_unavailable: str = "25%",
    spare: str = "6h",
    within: str = "2h",
    ignore_budgets: bool = False,
    allow_lost: bool = False,
) -> Goals:
    """Return the goals that options set; raises GoalError.

    >>> read_goals(max_pending="1m", within="30m").within_seconds
    1800.0
    """
    goals = Goals(
        max_pending_seconds=_seconds(max_pending, "--max-pending"),
        max_unavailable=max_unavailable,
        spare_seconds=_seconds(spare, "--spare"),
        within_seconds=_seconds(within, "--within"),
        keep_budgets=not ignore_budgets,
        allow_lost=allow_lost,
    )
    unavailable(goals, 1)
    if not goals.within_seconds:
        raise GoalError("--within", f"{within!r}: write a time above 0, like 30m or 2h")
    return goals


def _seconds(text: str, goal: str) -> float:
    try:
        seconds = 0.0 if text == "0" else parse_duration(text) / NANOSECONDS
    except DurationError:
        seconds = -1.0
    if seconds < 0:
        raise GoalError(goal, f"{text!r}: write a time like 90s, 10m or 2h")
    return seconds


def breaches(
    goals: Goals,
    found: Forecast,
    pods: Mapping[str, Document],
    pending: Sequence[Pending],
    now: datetime,
    unready: Unready,
) -> list[Breach]:
    """Return what a wave breaks; *pods* are those evicted, as they were *now*, before it; *unready* are all."""
    return [
        *_lost(goals, found, pods),
        *_pending(goals, found, pending),
        *_loops(goals, found),
        *_budgets(goals, found),
        *_unavailable(goals, found, unready),
        *_spared(goals, found, pods, now),
    ]


def _lost(goals: Goals, found: Forecast, pods: Mapping[str, Document]) -> Iterator[Breach]:
    for one in found.leaving:
        if not one.owner and one.wanted and not goals.allow_lost:
            yield Breach(
                "--force", one.pod, f"{one.pod} is evicted, and no controller makes it again", (one.node,)
            )
    for note in found.notes:
        if "declare no controller" in note:
            yield Breach("--force", "", note)  # kubectl drain stops there and evicts nothing
        elif not note.startswith(ORDER):
            yield Breach("first", "", note)


def _pending(goals: Goals, found: Forecast, pending: Sequence[Pending]) -> Iterator[Breach]:
    nodes = tuple(sorted({one.node for one in found.leaving}))
    for each in pending:
        if each.why:
            yield Breach("room", each.pod, f"{each.pod} stays pending: {each.why}", nodes)
        elif each.seconds > goals.max_pending_seconds + _WHOLE_SECOND:
            told = f"{each.pod} is pending for {_time(each.seconds)}"
            yield Breach("--max-pending", each.pod, told, nodes, each.seconds)
    for turn in found.hindered:
        yield Breach("room", turn.pod, f"{turn.pod} is pending again: {turn.why_not}")
    waiting = any(each.why for each in pending)
    for one in found.leaving:
        if one.lost and one.owner and not one.owner.startswith("DaemonSet/") and not waiting:
            yield Breach(
                "room", one.pod, f"nothing runs in the place of {one.pod}: {one.why_nowhere}", (one.node,)
            )
    if found.ended_early:
        yield Breach("--until", "", "more goes on than a forecast waits for")


def _loops(goals: Goals, found: Forecast) -> Iterator[Breach]:
    for each in found.circles if not goals.allow_loops else ():
        yield Breach(
            "loops", each.workload, f"{title(each.workload)} is evicted and rescheduled in a loop", each.nodes
        )


def _budgets(goals: Goals, found: Forecast) -> Iterator[Breach]:
    for each in found.budgets:
        if each.blocks:  # the API server refuses, whatever the goals are
            nodes = tuple(sorted({one.node for one in found.leaving if one.pod in each.blocks}))
            told = f"{each.name}'s budget refuses to evict {each.blocks[0]}"
            more = f" and {len(each.blocks) - 1} more" if len(each.blocks) > 1 else ""
            yield Breach("budgets", each.name, f"{told}{more}", nodes)
        elif goals.keep_budgets:
            told = f"{each.name}'s budget wants {each.desired} healthy pods, {each.lowest} would be"
            yield Breach("budgets", each.name, told, needs=each.desired - each.lowest)


def size(workload: Workload, unready: Mapping[str, str]) -> int:
    """Return how many pods a workload has: those that ran before the wave, and those that had no node."""
    return workload.before + sum(not node for node in unready.values())


def _unavailable(goals: Goals, found: Forecast, unready: Unready) -> Iterator[Breach]:
    evicted = Counter(
        one.workload for one in found.leaving if one.pod in unready.get(one.workload, ())
    )  # which take nothing away
    for each in found.workloads:
        if "/DaemonSet/" in each.name or "/Pod/" in each.name:
            continue
        lost, down = each.before - each.lowest - evicted[each.name], unready.get(each.name, {})
        out, pods = lost + len(down), size(each, down)
        if lost > 0 and out > (most := unavailable(goals, pods)):
            told = f"{title(each.name)} would have {out} of {counted(pods, 'pod')} unavailable, {most} may be"
            already = f"; {len(down)} {'is' if len(down) == 1 else 'are'} already" if down else ""
            yield Breach("--max-unavailable", each.name, told + already, _nodes_of(each), out, pods)


def _nodes_of(workload: Workload) -> tuple[str, ...]:
    return tuple(sorted({start for start, _, _ in workload.moves}))


def _spared(goals: Goals, found: Forecast, pods: Mapping[str, Document], now: datetime) -> Iterator[Breach]:
    if goals.spare_seconds is None:
        return
    for one in found.leaving:
        pod = pods.get(one.pod)
        if pod is None or not is_device_job(pod):
            continue
        ran = age(pod, now) + one.after.total_seconds()
        if ran > goals.spare_seconds:
            told = f"{one.pod} is a job with devices that has run for {_time(ran)}"
            yield Breach("--spare", one.pod, told, (one.node,), ran)


# ── what pods cost ───────────────────────────────────────────────────────────────────────────────


def has_devices(pod: Document) -> bool:
    """Return whether a pod claims devices, or asks for extended resources such as `nvidia.com/gpu`."""
    spec = pod.get("spec") or {}
    return bool(spec.get("resourceClaims")) or any(
        not name.startswith(_CORE_RESOURCES)
        for container in spec.get("containers") or ()
        for name in ((container.get("resources") or {}).get("requests") or {})
    )


def is_device_job(pod: Document) -> bool:
    """Return whether a pod runs to completion, with devices."""
    return (pod.get("spec") or {}).get("restartPolicy", "Always") != "Always" and has_devices(pod)


def age(pod: Document, now: datetime) -> float:
    """Return the seconds that a pod has run; 0 for one that does not say when it began."""
    status, metadata = pod.get("status") or {}, pod.get("metadata") or {}
    try:
        began = datetime.fromisoformat(status.get("startTime") or metadata.get("creationTimestamp") or "")
    except ValueError:
        return 0.0
    return max(now.timestamp() - began.timestamp(), 0.0)


def is_expensive(one: EvictedPod, pods: Mapping[str, Document], now: datetime) -> bool:
    """Return whether a pod has devices, or has run for long."""
    pod = pods.get(one.pod)
    return pod is not None and (has_devices(pod) or age(pod, now) > LONG.total_seconds())


def _time(seconds: float) -> str:
    return duration(timedelta(seconds=round(seconds)))
