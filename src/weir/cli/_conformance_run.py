"""Run of `weir conformance`: plays stories in a live cluster and prints the report."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from weir.cli._confirm import agreed, check_askable
from weir.client.api import Client
from weir.conformance import formats, results
from weir.conformance.cleaning import clean, remains
from weir.conformance.formats import MARKS
from weir.conformance.formats import table as lines
from weir.conformance.isolation import isolation_problem
from weir.conformance.results import Report, Result, Verdict
from weir.conformance.run import AT_ONCE, PACE, ConformanceRun, Progress
from weir.exit_codes import CANNOT_SAY, FINDINGS, FINE, INTERRUPTED
from weir.inputs.live import Live
from weir.output import (
    BAD,
    DIM,
    GOOD,
    NOTE,
    paint,
    say,
    say_lines,
    to_json,
    visible,
    wants_colour,
    write_document,
)
from weir.simulation.demo.story import Story
from weir.simulation.demo.words import Screen

T = TypeVar("T")
TERMINATED: Final = 143
#: How many of the stories that are being played a terminal shows.
MOST_SHOWN: Final = 16


def answer(
    chosen: list[Story],
    folder: Path,
    only_clean: bool,
    at_once: int | None,
    late: float,
    patience: float,
    live: Live,
    yes: bool,
    output: str,
) -> int:
    """Return the exit code of `weir conformance`, after writing its result."""
    if only_clean:
        return _clean(live, yes)
    playable = [story for story in chosen if not isolation_problem(story)]
    if not playable:
        reasons = "; ".join(f"{story.name}: {isolation_problem(story)}" for story in chosen[:3])
        raise click.UsageError(f"nothing to play in a live cluster: {reasons or f'{folder} is empty'}")
    check_askable(yes)
    number = "1 story" if len(playable) == 1 else f"{len(playable)} stories"
    if not agreed(f"play {number} on simulated nodes", live, yes):
        return FINE
    return _interruptible(_play(live, chosen, at_once, (late, patience), output))


async def _play(
    live: Live, chosen: list[Story], at_once: int | None, slack: tuple[float, float], output: str
) -> int:
    client = live.connect("weir-conformance")
    onlooker = _Progress()
    try:
        late, patience = (timedelta(seconds=each) for each in slack)
        pace = replace(PACE, late=late, patience=patience)
        run = ConformanceRun(
            client, live.cluster_name(), at_once=at_once or AT_ONCE, pace=pace, look=onlooker.look
        )
        onlooker.begin(run.id)
        report = await run.play(chosen)
    finally:
        onlooker.end()
        await client.close()
    match output:
        case "json":
            write_document(to_json(results.document(report)))
        case "junit":
            write_document(formats.junit(report))
        case "html":
            write_document(formats.html(report), nl=False)
        case _:
            _show(report)
    return verdict(report)


def verdict(report: Report) -> int:
    """Return the exit code that a report comes to."""
    if report.count(Verdict.FAILS):
        return FINDINGS
    return CANNOT_SAY if report.count(Verdict.CANNOT_SAY) else FINE


def _show(report: Report) -> None:
    colour = wants_colour()
    colours = {
        Verdict.PASSES: GOOD,
        Verdict.FAILS: BAD,
        Verdict.NOT_OFFERED: DIM,
        Verdict.CANNOT_SAY: NOTE,
    }
    for line in lines(report):
        style = colours[line.verdict] if line.verdict else "reset"
        say(paint(line.text, style, bold=line.bold, on=colour))


class _Progress:
    """Progress on standard error: a picture on a terminal, otherwise a line per story."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty() and wants_colour(sys.stderr)
        self._screen = Screen(sys.stderr)
        self._told = 0

    def begin(self, run: str) -> None:
        say(f"run {run}: everything it makes has the label weir.dev/conformance={run}", err=True)

    def look(self, progress: Progress) -> None:
        new: list[Result] = list(progress.done[self._told :])
        self._told += len(new)
        lines = [self._line(result) for result in new]
        if not self._live:
            say_lines(lines, err=True)
            return
        if lines:
            self._screen.leave([visible(line) for line in lines])
        head = f"{len(progress.done)} of {progress.total} stories done, {len(progress.playing)} being played"
        self._screen.draw(
            [visible(line) for line in (head, *(f"  {each}" for each in progress.playing[:MOST_SHOWN]))]
        )

    def end(self) -> None:
        if self._live:
            self._screen.leave()

    @staticmethod
    def _line(result: Result) -> str:
        return f"{MARKS[result.verdict]} {result.story.name}: {result.verdict.value} ({result.seconds:.0f} s)"


# ── cleaning ─────────────────────────────────────────────────────────────────────────────────────


def _clean(live: Live, yes: bool) -> int:
    async def look(client: Client) -> dict[str, Any]:
        return await remains(client)

    async def take(client: Client) -> dict[str, int]:
        return dict(await clean(client))

    check_askable(yes)
    remaining = live.run("weir-conformance", look)
    if not remaining:
        say(f"no run left anything in {live.cluster_name()}")
        return FINE
    runs = ", ".join(f"{run} ({_counted(kinds)})" for run, kinds in sorted(remaining.items()))
    if not agreed(f"take away what these runs made, also if one is going on: {runs},", live, yes):
        return FINE
    say(f"taken away: {_counted(live.run('weir-conformance', take))}")
    return FINE


def _counted(kinds: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))


def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Return what *work* comes to; SIGTERM ends it as Ctrl-C does, after its clean-up."""
    terminated = False

    async def main() -> int:
        task = asyncio.ensure_future(work)

        def terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        with suppress(NotImplementedError):  # no such signals there
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await task

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        return TERMINATED if terminated else INTERRUPTED
