"""Zone states and the rate-limited queue of nodes to be tainted for eviction.

Spec: core.md 4.6 "Zone state". When many nodes of a zone fail at once, the zone is more likely partitioned than dead,
so its rate is reduced; when no node of the cluster is ready, eviction stops.
"""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import Final

from weir.controllers.runtime.views import Node

NORMAL_RATE: Final = 0.1  # nodes a second
SLOW_RATE: Final = 0.01
LARGE_ZONE_NODES: Final = 50
UNHEALTHY_SHARE: Final = 0.55
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"


class ZoneState(enum.Enum):
    """How much of a zone is ready."""

    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


def zone_of(node: Node) -> str:
    """Return the name of the node's zone, nothing when it says none."""
    labels = node.labels
    region, zone = labels.get(REGION, ""), labels.get(ZONE, "")
    return f"{region}:\x00:{zone}" if region or zone else ""


def zone_state(ready: int, unready: int) -> ZoneState:
    """Return the state of a zone from how many of its nodes are ready and how many are not.

    >>> zone_state(1, 3), zone_state(0, 1)
    (<ZoneState.PARTIAL_DISRUPTION: 'PartialDisruption'>, <ZoneState.FULL_DISRUPTION: 'FullDisruption'>)
    """
    if unready and not ready:
        return ZoneState.FULL_DISRUPTION
    if unready > 2 and unready / (ready + unready) >= UNHEALTHY_SHARE:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


class Counted:
    """How many nodes of each zone are ready, kept by change. Nodes that opted out do not count."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[str, bool]] = {}  # node → (zone, ready)
        self._zones: dict[str, list[int]] = {}  # zone → [unready, ready]

    def put(self, node: Node, ready: str) -> None:
        """Count *node*, whose Ready condition is *ready* (nothing when it has none: it does not count)."""
        self.drop(node.name)
        if ready and EXCLUDED not in node.labels:
            zone, well = zone_of(node), ready == "True"
            self._nodes[node.name] = (zone, well)
            self._zones.setdefault(zone, [0, 0])[well] += 1

    def drop(self, node: str) -> None:
        """Count *node* no more."""
        if (known := self._nodes.pop(node, None)) is not None:
            zone, well = known
            self._zones[zone][well] -= 1
            if not any(self._zones[zone]):
                del self._zones[zone]

    def zones(self) -> dict[str, tuple[int, int]]:
        """Return how many are ready and how many are not, for every zone that has nodes."""
        return {zone: (well, unwell) for zone, (unwell, well) in self._zones.items()}


def rate_of(state: ZoneState, nodes: int) -> float:
    """Return how many nodes a second may be tainted in a zone of so many nodes."""
    if state is ZoneState.PARTIAL_DISRUPTION:
        return SLOW_RATE if nodes > LARGE_ZONE_NODES else 0.0
    return NORMAL_RATE


class ZoneQueue:
    """Nodes of one zone that wait for their NoExecute taint, and when the next may have it."""

    def __init__(self) -> None:
        self.rate = NORMAL_RATE
        self._waiting: dict[str, None] = {}
        self._last: datetime | None = None  # when the last one was let through

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, node: str) -> None:
        """Let *node* wait, behind those that wait already."""
        self._waiting.setdefault(node)

    def remove(self, node: str) -> None:
        """*node* need not wait any more."""
        self._waiting.pop(node, None)

    def due(self, now: datetime) -> datetime | None:
        """Return when the next node may go (now, when it may already); None when none may."""
        if not self._waiting or self.rate <= 0:
            return None
        if self._last is None:
            return now
        return max(now, self._last + timedelta(seconds=1 / self.rate))

    def head(self) -> str | None:
        """Return the next node."""
        return next(iter(self._waiting), None)

    def let_through(self, now: datetime) -> None:
        """The first may go; it has used the zone's allowance."""
        self._waiting.pop(next(iter(self._waiting)))
        self._last = now
