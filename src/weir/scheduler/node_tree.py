"""Node order: zones round-robin, and within a zone by age.

Spec: core.md 3.5. A search that stops after enough nodes has thus seen every zone, like upstream's node tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from weir.objects.core import Node

#: The older label counts where a node has both.
ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_key(node: Node) -> str:
    """Return what nodes of one zone have in common; zones of one name in two regions are two. Empty: no zone."""
    labels = node.labels
    zone = next((labels[key] for key in ZONE_LABELS if key in labels), "")
    region = next((labels[key] for key in REGION_LABELS if key in labels), "")
    return f"{region}:\x00:{zone}" if region or zone else ""


def rows_in_order(rows: Iterable[int], nodes: Sequence[Node | None]) -> Iterator[int]:
    """Yield *rows* of *nodes*, given as they came, in the order they are looked at."""
    zones: dict[str, list[int]] = {}
    for row in rows:
        node = nodes[row]
        assert node is not None
        zones.setdefault(zone_key(node), []).append(row)
    return _in_turn(zones.values())


def _in_turn(lists: Iterable[list[int]]) -> Iterator[int]:
    """Yield the first of every list, then the second of every list, and so on."""
    waiting = [iter(rows) for rows in lists]
    while waiting:
        going_on = []
        for rows in waiting:
            row = next(rows, None)
            if row is not None:
                yield row
                going_on.append(rows)
        waiting = going_on
