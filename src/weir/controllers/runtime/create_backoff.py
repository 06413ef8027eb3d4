"""Exponential backoff for creations that the API server rejected.

Spec: KEP-5471 and KEP-5500 "Risks and Mitigations" (controllers hot-looping on templates that are refused).
A rejected template is rejected each time, and without backoff every change of the workload (its own status included)
would be another attempt. A new generation of the owner is tried at once, since it may be the fix.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from weir.controllers.runtime.actions import Create

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 1000.0


@dataclass(frozen=True, slots=True)
class _Refused:
    generation: int
    times: int
    not_before: float  #: on the monotonic clock, in seconds


class CreateBackoff:
    """Recent rejections by work item."""

    def __init__(self) -> None:
        self._refused: dict[Hashable, _Refused] = {}

    def __len__(self) -> int:
        return len(self._refused)

    def wait(self, key: Hashable, action: Create, now: float) -> float:
        """Return for how many seconds the action had better not be tried; nothing when it may be.

        >>> from weir.objects.kinds import by_kind
        >>> backoff, create = CreateBackoff(), Create(by_kind("v1", "Pod"), {}, generation=1)
        >>> backoff.note("web", create, now=10.0), backoff.wait("web", create, now=10.04) > 0
        (0.1, True)
        """
        refused = self._refused.get(key)
        if refused is None or refused.generation != action.generation:
            return 0.0
        return max(0.0, refused.not_before - now)

    def note(self, key: Hashable, action: Create, now: float) -> float:
        """Take in a refusal; return the pause in seconds until the next try."""
        before = self._refused.get(key)
        times = before.times if before is not None and before.generation == action.generation else 0
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(times, 60), LONGEST_PAUSE_SECONDS)
        self._refused[key] = _Refused(action.generation, times + 1, now + pause)
        return pause

    def forget(self, key: Hashable) -> None:
        """Nothing was refused this time: it was accepted, or is not wanted any more."""
        self._refused.pop(key, None)
