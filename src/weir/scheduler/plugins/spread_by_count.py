"""Spread scores computed per (domain, pod count) instead of per node.

Soft constraints on hostnames, alone or with one on another label, are every workload's default. Nodes of one domain
with equally many pods of the group score the same.

Optimized form of `BoundPodTopologySpread.normalized_by_node`; tests/unit/scheduler/plugins/test_spread_constraints.py
compares them; bench: "with default spread, 5,000 nodes" of `python -m bench scheduler`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weir.scheduler.framework import MAX_NODE_SCORE
from weir.scheduler.node_columns import Bools, Ids, Ints

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Beyond this many places for each node, looking at the nodes is cheaper.
_PLACES_A_NODE: Final = 2
_FEWEST_PLACES: Final = 256


class Places:
    """Where every node stands: its domain, and how many pods of the group it has. Kept while no node changes."""

    def __init__(self) -> None:
        self._version: object = None
        self.width = 0  #: of counts, one place before them for nodes without a hostname
        self.domains = 0

    def of_rows(
        self, version: object, counts: Ints, hosts: Ids, domains: Ids | None, known: int
    ) -> Ints | None:
        """Return the place of every row; None where there are too many places.

        *hosts* and *domains* are the label numbers of the rows, negative without the label; *known* domains are
        distinguished.
        """
        most = int(counts.max(initial=0))
        if self._version != version or most + 2 > self.width:
            self._version, self.domains = version, known
            self.width = 1 << (most + 2).bit_length()  # the next pods find room
            self._labelled = hosts >= 0
            self._all_labelled = bool(self._labelled.all())
            self._first: Ints = self._labelled.astype(np.int64)
            if domains is not None:
                self._first += np.where(domains >= 0, domains, known) * self.width
        if (known + 1) * self.width > max(_PLACES_A_NODE * len(counts), _FEWEST_PLACES):
            return None
        return self._first + (counts if self._all_labelled else np.where(self._labelled, counts, 0))

    def taken(self, places: Ints) -> Bools:
        """Return which places these are, by domain (the last is none) and count."""
        taken: Bools = np.zeros((self.domains + 1) * self.width, np.bool_)
        taken[places] = True
        return taken.reshape(self.domains + 1, self.width)

    def by_hostname(self, weight: float, allowed: int) -> Floats:
        """Return the raw score of every count; a node without a hostname has none."""
        scores: Floats = np.arange(-1.0, self.width - 1.0) * weight + allowed
        scores[0] = 0.0
        return scores


def normalized(raw: Ints, taken: Bools) -> Ints:
    """Return what the places score, from 0 to 100, held against those that are *taken*."""
    among = raw[taken]
    high, low = int(among.max()), int(among.min())
    if high == 0:
        return np.full(raw.shape, MAX_NODE_SCORE, np.int64)
    return MAX_NODE_SCORE * (high + low - raw) // high
