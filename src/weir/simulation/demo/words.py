"""Prints a story: what was requested, what happened and why; on a terminal as a live table, redrawn in place.

Lines come from observations, never from the specification; differences follow. Without a terminal (a pipe, NO_COLOR)
lines are printed as steps complete.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO, Any, Final

from weir.explain.phrases import counted, duration, listed
from weir.simulation.demo.history import History, Life
from weir.simulation.demo.judge import Judged
from weir.simulation.demo.play import Began, Ended
from weir.simulation.demo.story import Story

CLEAR_BELOW: Final = "\033[J"


class Screen:
    """The bottom of a terminal, redrawn as often as wanted, above which finished lines stay."""

    def __init__(self, stream: IO[str], size: tuple[int, int] | None = None) -> None:
        """*size* is (columns, lines); the terminal's own when None."""
        self._stream, self._size = stream, size
        self._drawn = 0

    def draw(self, lines: Sequence[str]) -> None:
        """Show *lines* in place of what was drawn before; what does not fit the terminal is left out."""
        columns, height = self._size or tuple(shutil.get_terminal_size())
        room = max(height - 2, 1)
        shown = list(lines)
        if len(shown) > room:
            shown = [*shown[:1], f"… {len(shown) - room} more", *shown[len(shown) - room + 2 :]][:room]
        text = "".join(f"{_cut(line, columns)}\n" for line in shown)
        self._stream.write(self._back() + text)
        self._stream.flush()
        self._drawn = len(shown)

    def leave(self, lines: Sequence[str] = ()) -> None:
        """Take away what was drawn and write *lines* for good."""
        self._stream.write(self._back() + "".join(f"{line}\n" for line in lines))
        self._stream.flush()
        self._drawn = 0

    def _back(self) -> str:
        return f"\033[{self._drawn}A\r{CLEAR_BELOW}" if self._drawn else ""


def _cut(line: str, columns: int) -> str:
    return line if len(line) < columns else line[: max(columns - 2, 0)] + "…"


#: How long the live table shows deleted pods.
FORGOTTEN: Final = timedelta(minutes=2)


@dataclass(frozen=True)
class Line:
    """One line, with how it is meant: title, plain, event, good, bad, why or note."""

    kind: str
    text: str


def clock(time: timedelta) -> str:
    """Return a time since the beginning as a clock shows it.

    >>> clock(timedelta(seconds=95)), clock(timedelta(hours=1))
    ('1:35', '1:00:00')
    """
    seconds = int(time.total_seconds())
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def opening(story: Story) -> Iterator[Line]:
    """Yield what a story asks, and of which cluster."""
    yield Line("title", f"{story.title}  ({story.source})")
    yield Line("plain", f"  {story.asks}")
    for node in story.nodes:
        marks = [*node.taints, *(f"{key}={value}" for key, value in node.labels.items())]
        marks += [f"{amount} {name}" for name, amount in node.capacity.items()]
        yield Line("note", f"  node {node.name}: {', '.join(marks) or 'no taints'}")


def began(moment: Began) -> Line:
    """Return what was done."""
    return Line("event", f"  {clock(moment.at)} {moment.step.event}")


def ended(moment: Ended, start: datetime) -> Iterator[Line]:
    """Yield what came of it; *start* is when the story began."""
    since = moment.since
    for judged in moment.judged:
        yield Line("good" if judged else "bad", f"{judged.outcome.about}: {happened(judged, start, since)}")
        yield from (Line("why", f"      {text}") for text in judged.why)
        if judged.outcome.note:
            yield Line("note", f"      note: {judged.outcome.note}")
        for difference in judged.differences:
            yield Line("bad", f"NOT as specified: {difference}")
    for text in moment.unexpected:
        yield Line("bad", f"NOT as specified: refused: {text}")


def happened(judged: Judged, start: datetime, since: datetime) -> str:
    """Return what was seen of an outcome's subject from *since* on."""
    facts, outcome = judged.facts, judged.outcome
    if refusal := facts.get("refused"):
        return f"refused: {refusal}"
    if outcome.plan:
        return f"{counted(facts.get('waves', 0), 'wave')} made, each reached its state"
    if "nodes" in facts:
        return _copies(judged.lives)
    if outcome.workload:
        phases = _phases(judged.lives)
        return f"{phases}; {counted(len(judged.lives), 'pod')} made so far"
    if outcome.object:
        shown = [
            f"{path} = {_value(value)}" for path, value in facts.items() if path not in ("there", "refused")
        ]
        return ", ".join(shown) or ("is there" if facts.get("there") else "is not there")
    return _life(judged.lives[-1], start, since) if judged.lives else "was never there"


def _life(life: Life, start: datetime, since: datetime) -> str:
    recent = [
        f"{what} at {clock(at - start)}" for at, what in life.moments() if at >= since and what != "created"
    ]
    if recent:
        return ", ".join(recent)
    if not life.there:
        return "is gone"
    if life.node:
        return f"still {life.phase} on {life.node}"
    why = (life.condition("PodScheduled") or {}).get("message", "")
    why = why.partition(" preemption: ")[0]  # what was tried besides, and long
    return f"{life.phase}: {why}" if why else f"{life.phase}, on no node"


def _copies(lives: Sequence[Life]) -> str:
    there = [life.node for life in lives if life.node]
    waiting = [life.name.partition("-on-")[2] for life in lives if not life.node]
    taken = f"bound on {listed(there, 5)}" if there else "bound nowhere"
    return f"{taken}; pending for {listed(waiting, 5)}" if waiting else taken


def _phases(lives: Sequence[Life]) -> str:
    there = [life for life in lives if life.there and life.terminating_at is None]
    found = []
    for phase, number in sorted(Counter(life.phase for life in there).items()):
        nodes = sorted({life.node for life in there if life.phase == phase and life.node})
        found.append(f"{number} {phase} on {listed(nodes, 3)}" if nodes else f"{number} {phase}")
    return ", ".join(found) or "no pods"


def _value(value: Any) -> str:
    return "(not there)" if value is None else str(value)


def summary(stories: int, outcomes: int, wrong: int, virtual: timedelta, seconds: float) -> str:
    """Return the last line.

    >>> summary(2, 5, 0, timedelta(minutes=2), 0.4)
    "2 stories, 5 outcomes, all as specified; 2 min of the cluster's time in 0.4 s"
    """
    verdict = f"{wrong} NOT as specified" if wrong else "all as specified"
    played = "1 story" if stories == 1 else f"{stories} stories"
    passed = f"{duration(virtual)} of the cluster's time in {seconds:.1f} s"
    return f"{played}, {counted(outcomes, 'outcome')}, {verdict}; {passed}"


def table_rows(history: History, start: datetime) -> list[tuple[str, str, str, str]]:
    """Return the live table: pod, node, state, since when; pods deleted a while ago are left out."""
    rows = [("POD", "NODE", "STATE", "SINCE")]
    now = history.cluster.now
    for life in history.lives.values():
        if life.gone_at is not None and now - life.gone_at > FORGOTTEN:
            continue
        at, state = life.moments()[-1]
        state = {"created": "pending", f"bound to {life.node}": "starting"}.get(state, state)
        rows.append((life.name, life.node or "-", state, clock(at - start)))
    return rows
