"""Verdict of one node: whether it accepts the pod, the reasons, and how long the pod could stay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from weir.objects.core import Taint
from weir.scheduler.plugins.registry import FILTERS
from weir.scheduler.reasons import Cordoned, Reason, UntoleratedTaint
from weir.taints.eviction import Stay
from weir.taints.wellknown import UNSCHEDULABLE

FOR_EVER: Final = Stay(None)


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """Whether one node takes the pod, why not, and how long the pod could stay."""

    node: str
    reasons: tuple[Reason, ...] = ()
    stay: Stay = FOR_EVER
    disliked: tuple[Taint, ...] = ()  #: PreferNoSchedule taints that count against the node
    devices_leave: tuple[str, ...] = ()  #: device taints that end the pod's stay as soon as it is bound

    @property
    def fits(self) -> bool:
        return not self.reasons

    @property
    def deciding(self) -> tuple[Reason, ...]:
        """The reasons the scheduler would give: those of its first refusing filter."""
        if not self.reasons:
            return ()
        first = min(self.reasons, key=lambda reason: FILTERS.index(reason.plugin)).plugin
        reasons = tuple(reason for reason in self.reasons if reason.plugin == first)
        # Shortages and volumes are all reported; every other filter stops at the first thing it finds.
        return reasons if first in ("NodeResourcesFit", "VolumeBinding") else reasons[:1]

    @property
    def reported_reasons(self) -> tuple[Reason, ...]:
        """The reasons worth reporting: a cordon comes with a taint that repeats it."""
        if not any(isinstance(reason, Cordoned) for reason in self.reasons):
            return self.reasons
        return tuple(
            reason
            for reason in self.reasons
            if not (isinstance(reason, UntoleratedTaint) and reason.taint.key == UNSCHEDULABLE)
        )

    @property
    def group(self) -> tuple[Any, ...]:
        stay = None if self.reasons else (self.stay.limit, self.stay.taint and _identity(self.stay.taint))
        disliked = () if self.reasons else tuple(map(_identity, self.disliked))
        return (tuple(reason.group for reason in self.reasons), stay, disliked, self.devices_leave)


@dataclass(frozen=True)
class Group:
    """Nodes with the same reasons, closest first."""

    verdict: NodeVerdict  #: the one that comes closest speaks for all
    nodes: tuple[str, ...]
    values: tuple[
        str, ...
    ] = ()  #: what nodes of several groups differ in, lowest first (weir.explain.ranges)


def count(verdicts: Iterable[NodeVerdict]) -> dict[str, int]:
    """Return how many nodes have each kind of reason, most frequent first; a node may count several times."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        for kind in {reason.kind for reason in verdict.reported_reasons}:
            counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _identity(taint: Taint) -> tuple[str, str, str]:
    return (taint.key, taint.value, taint.effect)
