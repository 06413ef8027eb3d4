"""Results of stories and of a run.

A story passes, fails with what was observed, is not offered (the cluster rejects or drops what it needs), or is
unknown (permissions missing, or no response).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weir.simulation.demo.story import NEEDS, Story

SCHEMA: Final = "weir.conformance/v1"
_KEP: Final = re.compile(r"KEP-(\d+)")


class Verdict(enum.Enum):
    """What a story comes to."""

    PASSES = "passes"
    FAILS = "fails"
    NOT_OFFERED = "not offered"
    CANNOT_SAY = "cannot say"


@dataclass(frozen=True)
class Difference:
    """A difference from the specification: the step, the object, and what was observed."""

    event: str
    about: str
    difference: str

    def __str__(self) -> str:
        return f"{self.event}: {self.about}: {self.difference}" if self.about else self.difference


@dataclass(frozen=True)
class Result:
    """One story in one cluster."""

    story: Story
    verdict: Verdict
    outcomes: int = 0  #: how many were compared
    instead: tuple[Difference, ...] = ()
    because: str = ""  #: why it is not offered or cannot be said
    seconds: float = 0.0

    @property
    def keps(self) -> tuple[str, ...]:
        return keps_of(self.story)


@dataclass(frozen=True)
class Offer:
    """Whether a cluster offers what stories need; None: unknown."""

    need: str
    offered: bool | None
    because: str = ""

    @property
    def says(self) -> str:
        return f"{NEEDS[self.need]}: {self.because}" if self.because else NEEDS[self.need]


@dataclass(frozen=True)
class Report:
    """A run: where, what the cluster offers, and what every story came to."""

    cluster: str
    version: str
    results: tuple[Result, ...]
    offers: Mapping[str, Offer] = field(default_factory=dict)
    not_played: tuple[tuple[Story, str], ...] = ()  #: with why: weir.conformance.isolation
    seconds: float = 0.0

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict is verdict for result in self.results)


def keps_of(story: Story) -> tuple[str, ...]:
    """Return the KEPs that a story is about; the announcement of v1.35 is about KEP-5471."""
    keps = tuple(dict.fromkeys(_KEP.findall(f"{story.source} {story.name.replace('kep-', 'KEP-')}")))
    return keps or (("5471",) if "announcement" in story.source else ("other",))


def document(report: Report) -> dict[str, Any]:
    """Return a report for programs (docs/reference/conformance.schema.json)."""
    return {
        "schema": SCHEMA,
        "cluster": report.cluster,
        "version": report.version,
        "seconds": round(report.seconds, 1),
        "counts": {verdict.value: report.count(verdict) for verdict in Verdict},
        "offers": [
            {
                "need": offer.need,
                "means": NEEDS[offer.need],
                "offered": offer.offered,
                "because": offer.because,
            }
            for offer in report.offers.values()
        ],
        "stories": [
            {
                "name": result.story.name,
                "title": result.story.title,
                "source": result.story.source,
                "keps": list(result.keps),
                "needs": list(result.story.needs),
                "verdict": result.verdict.value,
                "outcomes": result.outcomes,
                "because": result.because,
                "instead": [
                    {"event": seen.event, "about": seen.about, "difference": seen.difference}
                    for seen in result.instead
                ],
                "seconds": round(result.seconds, 1),
            }
            for result in report.results
        ],
        "notPlayed": [{"name": story.name, "because": why} for story, why in report.not_played],
    }


def by_kep(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the results by the first KEP of their story, in the order of the numbers."""
    grouped: dict[str, list[Result]] = {}
    for result in results:
        grouped.setdefault(result.keps[0], []).append(result)
    return dict(sorted(grouped.items()))
