"""Every story once by a clock that runs by itself (`make demo-real-time`): the same outcomes as under virtual time.

Ten times as fast as the machine's clock unless PACE says otherwise, and slower where a story looks at something after
a moment. A component that is slow for a moment is late here, as in a real cluster, so times may differ by what the
machine needs for a second of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from weir.cli._demo_plan import story_plan
from weir.clock import VirtualClock
from weir.simulation.demo.judge import Judged
from weir.simulation.demo.play import Ended, play
from weir.simulation.demo.story import Story, choose, find_stories, parse_time

PACE = 10.0
#: How late a component may be, in seconds of the machine's clock.
LATE_SECONDS = 1.5
SETTLE_SECONDS = 0.02


class PacedClock(VirtualClock):
    """Real time accelerated by *pace*.

    Unlike virtual time it does not wait for components: slow work takes its time, as in a real cluster.
    """

    def __init__(self, pace: float, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        super().__init__(start)
        self._pace, self._began = pace, time.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * self._pace

    def now(self) -> datetime:
        return self._first + timedelta(seconds=self.monotonic())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0) / self._pace)

    async def advance(self, by: timedelta | float) -> None:
        """Wait until so much time has passed."""
        await self.sleep(by.total_seconds() if isinstance(by, timedelta) else by)

    async def settle(self, rounds: int = 0) -> None:
        """Yield for a moment; real time has no notion of idle."""
        await asyncio.sleep(SETTLE_SECONDS)


def pace_of(story: Story, pace: float) -> float:
    """Return how fast a story can be lived through: no step is over before a component that is late has acted."""
    shortest = min(step.lasts.total_seconds() for step in story.steps)
    return max(1.0, min(pace, shortest / LATE_SECONDS))


def differences(story: Story, pace: float) -> Iterator[str]:
    """Play *story* and yield what came out differently."""
    for moment in play(story, clock=PacedClock(pace), planner=story_plan):
        if isinstance(moment, Ended):
            yield from moment.unexpected
            for judged in moment.judged:
                if not judged and not only_late(judged, pace):
                    yield f"{judged.outcome.about}: {'; '.join(judged.differences)}"


def only_late(judged: Judged, pace: float) -> bool:
    """Return whether nothing differs but a time, and that by no more than the machine may be late."""
    times = {"left", "stayed"} & judged.outcome.asserted().keys()
    if len(judged.differences) > len(times):
        return False
    for name in times:
        wanted, seen = parse_time(getattr(judged.outcome, name)), judged.facts.get(name)
        if (
            isinstance(seen, str)
            or seen is None
            or abs((seen - wanted).total_seconds()) > LATE_SECONDS * pace
        ):
            return False
    return bool(times)


def main(words: list[str]) -> int:
    """Play the stories that *words* mean; return how many came out differently."""
    pace, wrong = float(os.environ.get("PACE", PACE)), 0
    for story in choose(find_stories(), words):
        began = time.monotonic()
        found = list(differences(story, pace_of(story, pace)))
        wrong += bool(found)
        print(
            f"{'✗' if found else '✓'} {story.name}: {story.lasts} in {time.monotonic() - began:.0f} s",
            flush=True,
        )
        for line in found:
            print(f"    {line}")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
