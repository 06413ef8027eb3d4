"""Sets the annotation `node.alpha.kubernetes.io/ttl`: how long kubelets may cache secrets and config maps.

The time grows with the number of nodes. The steps overlap, so that a cluster that grows and shrinks around a boundary
does not rewrite all its nodes each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from weir.client.api import STRATEGIC_MERGE_PATCH
from weir.controllers.runtime.controller import Action, Controller, Patch, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import NODES

ANNOTATION: Final = "node.alpha.kubernetes.io/ttl"
#: from so many nodes, up to so many, so many seconds
STEPS: Final = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, None, 300))


def step_for(nodes: int, current: int) -> int:
    """Return the step of a cluster of *nodes* that is on step *current*.

    >>> [step_for(nodes, 0) for nodes in (1, 100, 101, 5000)]
    [0, 0, 1, 4]
    >>> step_for(95, 1), step_for(89, 1)
    (1, 0)
    """
    while (above := STEPS[current][1]) is not None and nodes > above:
        current += 1
    while nodes < STEPS[current][0]:
        current -= 1
    return current


class NodeKey(msgspec.Struct, frozen=True):
    """A node whose annotation may be missing or old."""

    node: str


class NodeTtl(Controller):
    """The TTL controller."""

    name = "ttl-controller"
    kinds: Sequence[Kind] = (NODES,)

    def __init__(self, gates: Gates) -> None:
        self._step = 0

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[NodeKey]:
        """Yield the node that changed, where that can matter here."""
        if kind is NODES and new is not None:
            if old is None or annotation_of(old) != annotation_of(new):
                yield NodeKey(new.name)
        elif kind is NODES:
            yield NodeKey("")  # one node less: the others may be on another step now

    def reconcile(self, key: NodeKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield the change of one node's annotation, and of all others when the step changed."""
        step = step_for(listers.count(NODES), self._step)
        if step != self._step:
            self._step = step
            for node in listers.all(NODES):
                if node.name != key.node:
                    yield WakeAt(NodeKey(node.name), now)
        node = listers.node(key.node) if key.node else None
        wanted = str(STEPS[step][2])
        if node is not None and annotation_of(node) != wanted:
            patch = {"metadata": {"annotations": {ANNOTATION: wanted}}}
            yield Patch(NODES, node.name, "", patch, STRATEGIC_MERGE_PATCH)


def annotation_of(node: Any) -> str | None:
    """Return what the node's annotation says now."""
    found: str | None = (node.metadata.annotations or {}).get(ANNOTATION)
    return found
