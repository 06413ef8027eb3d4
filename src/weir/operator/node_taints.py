"""Taints that nodes have, counted from the cache of nodes: what the cluster itself shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from weir.client.cache import Cache
from weir.lowering.triples import Triple, triples_of

Document = dict[str, Any]


class NodeTaints:
    """How many nodes have each triple; `appeared` is told of those that a node has just got."""

    def __init__(self, nodes: Cache[Document]) -> None:
        self._nodes: Counter[Triple] = Counter()
        self.appeared: Callable[[Collection[Triple]], None] = lambda triples: None
        nodes.listen(self._changed)

    def __contains__(self, triple: Triple) -> bool:
        return triple in self._nodes

    def all(self) -> set[Triple]:
        """Return every triple of a node that is not Kubernetes' own."""
        return {triple for triple in self._nodes if not triple.conditional}

    def _changed(self, old: Document | None, new: Document | None) -> None:
        before, after = set(triples_of(old)), set(triples_of(new))
        for triple in after - before:
            self._nodes[triple] += 1
        for triple in before - after:
            self._nodes[triple] -= 1
            if self._nodes[triple] <= 0:
                del self._nodes[triple]
        if appeared := after - before:
            self.appeared(appeared)
