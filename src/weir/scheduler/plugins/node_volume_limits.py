"""NodeVolumeLimits: a CSI driver can attach so many volumes to a node and no more.

Spec: core.md 3.6. The limit is published in the node's CSINode; a volume counts once however many pods use it, and a
claim without a volume counts for the driver its class names. So does a volume still attached after its pod left.
Not here: in-tree volumes that were migrated to CSI.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from weir.objects.core import Pod
from weir.scheduler.framework import Code, Status
from weir.scheduler.podclass import PodClass
from weir.scheduler.table import Ids, NodeTable
from weir.scheduler.volumes import Storage, pod_claims, storage_class_of

NAME: Final = "NodeVolumeLimits"
_REJECTED: Final = Status(Code.UNSCHEDULABLE, ("node(s) exceed max volume count",), NAME)


class NodeVolumeLimits:
    name = NAME

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def bind(self, pod: PodClass, table: NodeTable) -> BoundNodeVolumeLimits | None:
        """Return the check, or None for a pod without claims."""
        if next(pod_claims(pod.pod), None) is None:
            return None
        return BoundNodeVolumeLimits(self._storage, pod.pod, table)


class BoundNodeVolumeLimits:
    name = NAME
    dynamic = True

    def __init__(self, storage: Storage, pod: Pod, table: NodeTable) -> None:
        self._storage, self._pod, self._table = storage, pod, table

    def prefilter(self) -> Status | None:
        return None

    def codes(self, rows: Any) -> Ids:
        codes: Ids = np.zeros(len(self._table.alive), np.int32)
        if self._storage.csi_nodes:
            wanted = set(self._attached(self._pod))
            for name in self._storage.csi_nodes if wanted else ():
                row = self._table.row_of.get(name)
                if row is not None:
                    codes[row] = self._too_many(name, row, wanted)
        return codes[rows]

    def _too_many(self, node: str, row: int, wanted: set[tuple[str, str]]) -> bool:
        limits = {
            driver.name: driver.allocatable.count
            for driver in self._storage.csi_nodes[node].spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        if not any(driver in limits for driver, _ in wanted):
            return False
        there = {
            volume
            for other in self._table.pods[row].values()
            if other.pod.spec.volumes
            for volume in self._attached(other.pod)
        }
        used = Counter(driver for driver, _ in there | self._still_attached(node))
        more = Counter(driver for driver, _ in wanted - there)
        return any(
            used[driver] + count > limits[driver] for driver, count in more.items() if driver in limits
        )

    def _still_attached(self, node: str) -> set[tuple[str, str]]:
        """Return (driver, volume) of everything that is attached to *node*, whether a pod uses it or not."""
        found: set[tuple[str, str]] = set()
        for attachment in self._storage.attachments.values():
            spec = attachment.spec
            volume = self._storage.volumes.get(spec.source.persistent_volume_name or "")
            if spec.node_name == node and volume is not None and volume.spec.csi:
                found.add((spec.attacher, str(volume.spec.csi.get("volumeHandle"))))
        return found

    def _attached(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Yield (driver, volume) of every CSI volume that *pod* uses or will use."""
        namespace = pod.metadata.namespace or "default"
        for name, _ in pod_claims(pod):
            claim = self._storage.claim(namespace, name)
            if claim is None:
                continue
            volume = self._storage.volume(claim.spec.volume_name) if claim.spec.volume_name else None
            if volume is not None:
                if volume.spec.csi:
                    yield str(volume.spec.csi.get("driver")), str(volume.spec.csi.get("volumeHandle"))
                continue
            storage_class = self._storage.classes.get(storage_class_of(claim))
            if storage_class is not None:
                yield storage_class.provisioner, f"{namespace}/{name}"

    def status(self, code: int) -> Status:
        return _REJECTED
