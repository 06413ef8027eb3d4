"""Compares the expected outcomes of a story with the observed facts.

Pure. An expected fact that was not observed is a difference like any other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.simulation.demo.history import Life
from weir.simulation.demo.story import NEVER, ExpectedOutcome, find_path, parse_time


@dataclass(frozen=True)
class Judged:
    """One outcome: what was seen, where that differs from what is specified, and why it is so."""

    outcome: ExpectedOutcome
    facts: Mapping[str, Any]
    differences: tuple[str, ...]
    lives: tuple[Life, ...] = ()
    why: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.differences


def pod_facts(life: Life | None, step_began: datetime) -> dict[str, Any]:
    """Return what can be said about one pod.

    >>> pod_facts(None, datetime(2026, 1, 1))
    {'there': False}
    """
    if life is None:
        return {"there": False}
    scheduled = life.condition("PodScheduled") or {}
    pending = scheduled.get("status") == "False"
    return {
        "there": life.there,
        "node": life.node or None,
        "phase": life.phase,
        "reason": life.document.get("status", {}).get("reason") or "",
        "message": scheduled.get("message", "") if pending else "",
        "disrupted": life.disrupted,
        "stayed": _between(life.bound_at, life.terminating_at),
        "left": _between(step_began, life.terminating_at),
    }


def workload_facts(lives: Sequence[Life]) -> dict[str, Any]:
    """Return what can be said about the pods of a workload."""
    there = [life for life in lives if life.there and life.terminating_at is None]
    return {"pods": dict(Counter(life.phase for life in there)), "made": len(lives)}


def fewest_running(lives: Sequence[Life], since: datetime) -> int:
    """Return the fewest of some pods that ran at the same time, at *since* or later."""
    ends = {id(life): _stopped(life) for life in lives}
    moments = [since, *(end for end in ends.values() if end is not None and end > since)]
    return min(
        sum(
            life.running_at is not None
            and life.running_at <= moment
            and ((end := ends[id(life)]) is None or end > moment)
            for life in lives
        )
        for moment in moments
    )


def _stopped(life: Life) -> datetime | None:
    """Return when a pod stopped running, or was told to."""
    ends = (life.terminating_at, life.ended_at, life.gone_at)
    return min((each for each in ends if each is not None), default=None)


def judge(
    outcome: ExpectedOutcome,
    facts: Mapping[str, Any],
    document: Mapping[str, Any] | None,
    events: Sequence[str] = (),
    lives: Sequence[Life] = (),
    why: Sequence[str] = (),
    late: timedelta = timedelta(),
) -> Judged:
    """Compare what an outcome says with *facts*, with the object as it is or last was, and with its events.

    *late* is how much later than specified a moment may be, where a clock runs by itself.
    """
    differences = []
    seen: dict[str, Any] = {}
    for name, wanted in outcome.asserted().items():
        if name == "shows":
            for path, value in wanted.items():
                seen[path] = find_path(document or {}, path)
                if seen[path] != value:
                    differences.append(f"{path}: specified {value!r}, seen {seen[path]!r}")
        elif name == "events":
            for line in wanted:
                if not any(_matches(line, event) for event in events):
                    shown = "; ".join(events) or "nothing"
                    differences.append(f"event {line!r} is specified, seen: {shown}")
        else:
            seen[name] = found = facts.get(name)
            if not _agrees(name, wanted, found, late):
                shown = _seconds(found) if isinstance(found, timedelta) else repr(found)
                differences.append(f"{name}: specified {_show(wanted)}, seen {shown}")
    return Judged(outcome, seen, tuple(differences), tuple(lives), tuple(why))


def _agrees(name: str, wanted: Any, found: Any, late: timedelta) -> bool:
    match name:
        case "stayed" | "left":
            if not isinstance(found, timedelta) or wanted == NEVER:
                return bool(found == wanted)
            # Whole seconds: a component may need a few milliseconds between hearing and acting.
            by = round(found.total_seconds()) - parse_time(wanted).total_seconds()
            return (-1 if late else 0) <= by <= late.total_seconds()
        case "made" | "lowest":
            return isinstance(found, int) and found >= wanted
        case "refused":
            return isinstance(found, str) and _matches(wanted, found)
        case "message":
            return found in (wanted, without_taints(wanted))
        case "nodes":
            return found is not None and sorted(found) == sorted(wanted)
    return bool(found == wanted)


_AVAILABLE: Final = re.compile(
    r"(?P<head>0/\d+ nodes are available: )(?P<reasons>.*?)\.(?P<more>| preemption: .*)", re.DOTALL
)
_TAINT: Final = re.compile(r"(\d+) node\(s\) had untolerated taint \{[^}]*\}")


def without_taints(message: str) -> str:
    """Return what a scheduler says that does not name the taints, as Kubernetes from 1.35 on (core.md D-02).

    >>> without_taints("0/2 nodes are available: 1 node(s) had untolerated taint {a: 1}, 1 Too many pods.")
    '0/2 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s).'
    """
    found = _AVAILABLE.fullmatch(message)
    if found is None:
        return message
    parts = re.split(r", (?=\d+ )", found["reasons"])
    counts = [int(each[1]) for each in map(_TAINT.fullmatch, parts) if each]
    if not counts:
        return message
    others = [part for part in parts if not _TAINT.fullmatch(part)]
    named = sorted([*others, f"{sum(counts)} node(s) had untolerated taint(s)"])
    return f"{found['head']}{', '.join(named)}.{found['more']}"


def _matches(wanted: str, event: str) -> bool:
    """Return whether an event says what is wanted; `…` stands for anything.

    >>> _matches("FailedCreate: … is invalid: …", "FailedCreate: Pod x is invalid: spec")
    True
    """
    return re.fullmatch(".*".join(map(re.escape, wanted.split("…"))), event, re.DOTALL) is not None


def _between(start: datetime | None, end: datetime | None) -> timedelta | str:
    return end - start if start is not None and end is not None else NEVER


def _show(wanted: Any) -> str:
    return str(list(wanted)) if isinstance(wanted, tuple) else repr(wanted)


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():g}s"
