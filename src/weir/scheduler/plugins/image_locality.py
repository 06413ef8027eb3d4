"""ImageLocality: prefer nodes that already have the pod's images, large and widespread ones most.

Spec: core.md 3.7.9. An image counts with its size times the share of nodes that have it, so that one node with a
rare image does not attract every pod.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weir.scheduler.framework import MAX_NODE_SCORE
from weir.scheduler.node_table import Ints, NodeTable
from weir.scheduler.pod_class import PodClass

NAME: Final = "ImageLocality"
_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
_MOST: Final = 1000 * _MIB


class ImageLocality:
    name = NAME

    def bind(self, pod: PodClass, table: NodeTable) -> BoundImageLocality:
        return BoundImageLocality(pod.images, table)


class BoundImageLocality:
    name = NAME

    def __init__(self, images: tuple[str, ...], table: NodeTable) -> None:
        self._images, self._table = images, table

    def raw(self, rows: Any) -> Ints:
        """Return each node's score, which is final: this plugin has no normaliser."""
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
