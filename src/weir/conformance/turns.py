"""Order and concurrency of stories.

The longest start first. A story that compares scheduler messages about all nodes runs with few others, since a
scheduler reports a limited number of reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from weir.simulation.demo.story import Story

#: So many reasons fit into a message of weir's scheduler, beside those of the story itself.
FEW: Final = 6
LONG: Final = timedelta(minutes=4)


def compares_messages(story: Story) -> bool:
    """Return whether a story says what the scheduler must say of a pod that fits nowhere."""
    return any(
        isinstance(outcome.message, str)
        or any(event.startswith("FailedScheduling") for event in outcome.events)
        for step in story.steps
        for outcome in step.outcomes
    )


class Turns:
    """The order of a run."""

    def __init__(self, stories: Sequence[Story], at_once: int) -> None:
        self._at_once = at_once
        self._quiet = {number for number, story in enumerate(stories) if compares_messages(story)}
        self._waiting = sorted(
            range(len(stories)),
            key=lambda number: (
                stories[number].lasts_live < LONG,
                number not in self._quiet,
                -stories[number].lasts_live,
                number,
            ),
        )
        self._begun: list[int] = []

    def next(self, over: Collection[int]) -> list[int]:
        """Return the numbers of the stories that begin now, when those of *over* have ended."""
        begin: list[int] = []
        while self._waiting:
            playing = [number for number in self._begun if number not in over]
            quiet = self._waiting[0] in self._quiet or any(number in self._quiet for number in playing)
            if len(playing) >= (min(FEW, self._at_once) if quiet else self._at_once):
                break
            begin.append(self._waiting.pop(0))
            self._begun.append(begin[-1])
        return begin
