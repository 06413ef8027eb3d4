"""Run of `weir demo`: plays stories in simulated clusters and prints what differs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from weir.cli._demo_plan import story_plan
from weir.output import (
    BAD,
    DIM,
    GOOD,
    NOTE,
    emit,
    paint,
    progress,
    say,
    say_lines,
    table,
    visible,
    wants_colour,
    write_document,
)
from weir.simulation.demo import words
from weir.simulation.demo.picture import picture
from weir.simulation.demo.play import Began, Ended, Moment, Passing, play
from weir.simulation.demo.story import FOLDER, Story, choose, find_stories
from weir.simulation.demo.words import Line, Screen, summary

SCHEMA: Final = "weir.simulation.demo/v1"
#: A terminal sees this many pictures of a step, each for so long.
PICTURES: Final = 12
PICTURE_SECONDS: Final = 0.04
REAL_TICK: Final = timedelta(seconds=0.25)


def answer(
    stories: tuple[str, ...],
    only_list: bool,
    real_time: bool,
    folder: Path | None,
    output: str,
    seed: int,
) -> int:
    """Return the exit code of `weir demo`, after writing its result."""
    chosen = choose(find_stories(folder or FOLDER), stories)
    if only_list:
        say_lines(table([(s.name, s.title, s.source) for s in chosen], indent=0))
        return 0
    if not chosen:
        raise click.UsageError(f"{folder or FOLDER} holds no stories (*.yaml)")
    if output == "svg":
        return _as_picture(chosen, seed)
    if output != "text":
        return _as_document(chosen, output, seed)
    return _play(chosen, real_time, seed)


def _play(chosen: list[Story], real_time: bool, seed: int) -> int:
    live = sys.stdout.isatty() and wants_colour()
    total = sum((story.lasts for story in chosen), timedelta())
    if real_time:
        say(f"{len(chosen)} stories in real time: about {round(total.total_seconds() / 60)} minutes")
    began = time.monotonic()
    outcomes = wrong = 0
    for number, story in enumerate(chosen, 1):
        where = f"story {number} of {len(chosen)}"
        for moment in _show(story, live, real_time, seed, where):
            if isinstance(moment, Ended):
                outcomes += len(moment.judged)
                wrong += sum(not judged for judged in moment.judged) + len(moment.unexpected)
        say()
    said = summary(len(chosen), outcomes, wrong, total, time.monotonic() - began)
    say(paint(said, BAD if wrong else GOOD, bold=True, on=live))
    return 1 if wrong else 0


def _show(story: Story, live: bool, real_time: bool, seed: int, where: str) -> Iterator[Moment]:
    """Play a story, and show it while it happens."""
    screen = Screen(sys.stdout)
    for line in words.opening(story):
        say(_paint(line, live))
    longest = max(step.lasts for step in story.steps)
    tick = REAL_TICK if real_time else max(longest / PICTURES, timedelta(seconds=1)) if live else None
    start: datetime | None = None
    due = time.monotonic()
    for moment in play(story, tick=tick, seed=seed, planner=story_plan):
        start = start or moment.now - moment.at
        if isinstance(moment, Began):
            say(_paint(words.began(moment), live))
            due = time.monotonic()
        elif isinstance(moment, Passing):
            if live:
                rows = table(words.table_rows(moment.history, start), indent=6)
                head = paint(f"    {words.clock(moment.at)}  {where}", NOTE, on=True)
                screen.draw([visible(line) for line in (head, *rows)])
            due += moment.by.total_seconds() if real_time else PICTURE_SECONDS if live else 0.0
            time.sleep(max(due - time.monotonic(), 0.0))
        else:
            lines = [_paint(line, live) for line in words.ended(moment, start)]
            if live:
                screen.leave([visible(line) for line in lines])
            else:
                say_lines(lines)
        yield moment


def _paint(line: Line, on: bool) -> str:
    match line.kind:
        case "title":
            return paint(line.text, "reset", bold=True, on=on)
        case "good":
            return f"    {paint('✓', GOOD, on=on)} {line.text}"
        case "bad":
            return f"    {paint('✗', BAD, bold=True, on=on)} {line.text}"
        case "note" | "why":
            return paint(line.text, DIM, on=on)
    return line.text


def _as_picture(chosen: list[Story], seed: int) -> int:
    if len(chosen) != 1:
        names = ", ".join(story.name for story in chosen)
        raise click.UsageError(f"a picture shows one story, and these were chosen: {names}")
    moments = list(play(chosen[0], seed=seed, planner=story_plan))
    ends = [moment for moment in moments if isinstance(moment, Ended)]
    history = next((moment.history for moment in moments if isinstance(moment, Passing)), None)
    if history is None:
        raise click.UsageError(f"no time passes in {chosen[0].name}: there is nothing to draw")
    write_document(picture(chosen[0], ends, history), nl=False)
    return 0 if all(end.fine for end in ends) else 1


def _as_document(chosen: list[Story], form: str, seed: int) -> int:
    told: list[dict[str, Any]] = []
    fine = True
    with progress("stories told:") as tick:
        for story in chosen:
            ends = [
                moment for moment in play(story, seed=seed, planner=story_plan) if isinstance(moment, Ended)
            ]
            fine = fine and all(moment.fine for moment in ends)
            steps = [_step(moment) for moment in ends]
            told.append({"name": story.name, "title": story.title, "source": story.source, "steps": steps})
            tick(len(told), len(chosen))
    emit({"schema": SCHEMA, "asSpecified": fine, "stories": told}, form)
    return 0 if fine else 1


def _step(moment: Ended) -> dict[str, Any]:
    return {
        "event": moment.step.event,
        "endSeconds": moment.at.total_seconds(),
        "outcomes": [
            {
                "about": judged.outcome.about,
                "asSpecified": bool(judged),
                "seen": {name: _plain(value) for name, value in judged.facts.items()},
                "differences": list(judged.differences),
                "why": list(judged.why),
            }
            for judged in moment.judged
        ],
        "refused": list(moment.unexpected),
    }


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value
