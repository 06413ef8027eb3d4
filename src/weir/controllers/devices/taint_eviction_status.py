"""The DeviceTaintRule status condition about its evictions, with upstream's messages.

Spec: dra.md 7.6 "Rule status"; D-13. The condition's time moves with every change, also of the message alone; the
next update waits ten seconds from it. A dry run (`effect: None`) is reported once per generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from weir.controllers.runtime.views import parse_time
from weir.objects.times import format_time

TYPE: Final = "EvictionInProgress"
PERIOD: Final = timedelta(seconds=10)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EvictionCounts:
    """Number of pods to evict, and of their namespaces."""

    pods: int = 0
    namespaces: int = 0

    @classmethod
    def of(cls, pods: Iterable[tuple[str, str]]) -> EvictionCounts:
        """Return the count of (namespace, name) pairs, each once."""
        distinct = set(pods)
        return cls(len(distinct), len({namespace for namespace, _ in distinct}))

    @property
    def where(self) -> str:
        return "1 namespace" if self.namespaces == 1 else f"{self.namespaces} different namespaces"


def present(rule: Mapping[str, Any]) -> Document | None:
    """Return the condition that a rule has."""
    conditions = (rule.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == TYPE), None)


def too_young(condition: Mapping[str, Any] | None, generation: int, now: datetime) -> datetime | None:
    """Return when the condition may be written again; None: it may now.

    >>> from datetime import UTC
    >>> now = datetime(2026, 1, 1, 12, 0, 4, tzinfo=UTC)
    >>> written = {"observedGeneration": 2, "lastTransitionTime": "2026-01-01T12:00:00Z"}
    >>> str(too_young(written, 2, now)), too_young(written, 3, now)
    ('2026-01-01 12:00:10+00:00', None)
    """
    if condition is None or condition.get("observedGeneration", 0) != generation:
        return None
    since = parse_time(condition.get("lastTransitionTime"))
    return since + PERIOD if since is not None and now - since < PERIOD else None


def in_progress(pending: EvictionCounts, evicted: int) -> tuple[str, str, str]:
    """Return status, reason and message of a rule that evicts.

    >>> in_progress(EvictionCounts(3, 1), 0)
    ('True', 'PodsPendingEviction', '3 pods need to be evicted in 1 namespace.')
    >>> in_progress(EvictionCounts(), 2)
    ('False', 'Completed', '2 pods evicted since starting the controller.')
    """
    if pending.pods:
        need = "1 pod needs" if pending.pods == 1 else f"{pending.pods} pods need"
        message = f"{need} to be evicted in {pending.where}."
        return "True", "PodsPendingEviction", with_evicted(message, evicted)
    return "False", "Completed" if evicted else "NotStarted", with_evicted("", evicted)


def dry_run(published: int, allocated: int, counts: EvictionCounts, evicted: int) -> tuple[str, str, str]:
    """Return status, reason and message of a rule that only says what it would do."""
    would = "1 pod" if counts.pods == 1 else f"{counts.pods} pods"
    message = (
        f"{_devices(published, 'published')} {_devices(allocated, 'allocated')} "
        f"{would} would be evicted in {counts.where} if the effect was NoExecute. "
        "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
    )
    return "False", "NoEffect", with_evicted(message, evicted)


def other_effect(evicted: int) -> tuple[str, str, str]:
    """Return status, reason and message of a rule that keeps devices from being allocated."""
    return "False", "OtherEffect", with_evicted("Eviction only happens for the NoExecute effect.", evicted)


def with_evicted(message: str, evicted: int) -> str:
    """Return the message with the number of pods that left already."""
    if not evicted:
        return message
    pods = "1 pod" if evicted == 1 else f"{evicted} pods"
    return f"{message} {pods} evicted since starting the controller.".lstrip()


def _devices(count: int, which: str) -> str:
    return f"1 {which} device selected." if count == 1 else f"{count} {which} devices selected."


def changed(
    condition: Mapping[str, Any] | None, said: tuple[str, str, str], generation: int, now: datetime
) -> Document | None:
    """Return the condition to write; None when the rule says so already."""
    status, reason, message = said
    wanted: Document = {
        "type": TYPE,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }
    if condition is not None and all(condition.get(name, "") == value for name, value in wanted.items()):
        return None
    return {**wanted, "lastTransitionTime": format_time(now)}
