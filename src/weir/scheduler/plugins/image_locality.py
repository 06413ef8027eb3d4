"""ImageLocality: prefers nodes that already have the pod's images, large and widespread ones most.

Spec: core.md 3.7.9. An image counts with its size times the share of nodes that have it, so that one node with a rare
image does not attract every pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from weir.scheduler.framework import MAX_NODE_SCORE, Extensions, Normalize, Plugin, Scope, ScorePlugin
from weir.scheduler.node_columns import Ints
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import QueueingHint

NAME: Final = "ImageLocality"
_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
_MOST: Final = 1000 * _MIB


class ImageLocality(Plugin):
    name = NAME

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def for_class(self, pod: PodClass) -> Extensions:
        return Extensions(score=_Score(pod.images, self._table))

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {}  # it rejects no pod


class _Score(ScorePlugin):
    name = NAME
    scope = Scope.NODE
    normalize = Normalize.NONE

    def __init__(self, images: tuple[str, ...], table: NodeTable) -> None:
        self._images, self._table = images, table

    def score(self, rows: Any) -> Ints:
        if not any(self._table.images.get(image) for image in self._images):
            return np.zeros(len(self._table.alive[rows]), np.int64)
        total = np.zeros(len(self._table.alive), np.int64)
        nodes = len(self._table)
        for image in self._images:
            holders = self._table.images.get(image)
            if holders:
                total[list(holders)] += int(self._table.image_size[image] * (len(holders) / nodes))
        most = max(len(self._images), 1) * _MOST
        total = np.clip(total, _LEAST, most)
        scores: Ints = MAX_NODE_SCORE * (total - _LEAST) // (most - _LEAST)
        return scores[rows]
