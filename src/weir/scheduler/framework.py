"""What do plugins say to the scheduler? Codes, statuses and the words of a failed attempt.

Spec: core.md 3.2 "Status codes", 3.3 "Extension point rules", 3.10 "Events and conditions". A rejected node always
carries the reason and the plugin it comes from; counting reasons into the message users know happens here, once.
Not here: the plugins (weir.scheduler.plugins), the order in which they are asked (weir.scheduler.cycle).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_NODE_SCORE: Final = 100


class Code(enum.Enum):
    """What a plugin decided."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"  # preempting pods may help
    UNRESOLVABLE = "UnschedulableAndUnresolvable"  # it cannot
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"

    @property
    def rejected(self) -> bool:
        return self in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


@dataclass(frozen=True, slots=True)
class Status:
    """A plugin's answer for one node or one pod, with its reasons."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


SUCCESS: Final = Status(Code.SUCCESS)


class PluginError(Exception):
    """A plugin failed; the pod goes to error backoff with this text."""


class NoNodes(Exception):
    """There is nothing to schedule on."""

    def __str__(self) -> str:
        return "no nodes available to schedule pods"


@dataclass(frozen=True)
class Diagnosis:
    """Why no node took the pod: every node's status, and what the other extension points said."""

    nodes: int  #: how many nodes there were
    statuses: Mapping[str, Status] = field(default_factory=dict)  #: rejected nodes by name
    absent: Status | None = None  #: what holds for nodes left out before filtering
    prefilter: str = ""  #: text of a PreFilter rejection, which speaks for all nodes
    postfilter: str = ""
    plugins: frozenset[str] = frozenset()  #: the plugins that rejected
    pending: frozenset[str] = frozenset()  #: those of them that answered Pending

    @property
    def message(self) -> str:
        """The text of the FailedScheduling event and the PodScheduled condition."""
        text = f"0/{self.nodes} nodes are available:"
        if self.prefilter:
            text += f" {self.prefilter}."
        elif histogram := self.histogram():
            text += f" {', '.join(histogram)}."
        return f"{text} {self.postfilter}" if self.postfilter else text

    def histogram(self) -> list[str]:
        """Return `<count> <reason>`, sorted as text; a node with two reasons counts in both."""
        counts = Counter(reason for status in self.statuses.values() for reason in status.reasons)
        if self.absent is not None:
            for reason in self.absent.reasons:
                counts[reason] += self.nodes - len(self.statuses)
        return sorted(f"{count} {reason}" for reason, count in counts.items() if count)


def divide(numerator: int, denominator: int) -> int:
    """Return the quotient cut towards zero, as Go's integer division does."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def normalise(scores: Iterable[int], *, reverse: bool) -> list[int]:
    """Return *scores* scaled so that the highest is 100; with *reverse* the lowest raw score wins.

    >>> normalise([0, 1, 2], reverse=True), normalise([30, 10], reverse=False)
    ([100, 50, 0], [100, 33])
    """
    raw = list(scores)
    highest = max(raw, default=0)
    if highest == 0:
        return [MAX_NODE_SCORE] * len(raw) if reverse else raw
    scaled = [MAX_NODE_SCORE * score // highest for score in raw]
    return [MAX_NODE_SCORE - score for score in scaled] if reverse else scaled
