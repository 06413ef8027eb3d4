"""NodeVolumeLimits: attach limits of CSI drivers per node.

Spec: core.md 3.6. The limit is in the node's CSINode. A volume counts once however many pods use it; an unbound claim
counts for the driver of its class, and so do a volume still attached after its pod is gone and a migrated in-tree
volume. A driver may require that pods with its volumes avoid nodes without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from weir.gates import Gates
from weir.objects.core import Pod
from weir.objects.pod_reader import relevant_volumes
from weir.scheduler.claim_reasons import DriverMissing, TooManyVolumes
from weir.scheduler.csi_migration import Handle, driver_of, handle_of, inline_handle
from weir.scheduler.framework import Code, Extensions, FilterPlugin, Plugin, Scope, Status
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import (
    ATTACHMENT_DELETE,
    CLAIM_ADD,
    CSI_NODE_ADD,
    CSI_NODE_UPDATE,
    NODE_ADD,
    POD_DELETE,
    VOLUME_ADD,
    ClusterEvent,
    QueueingHint,
    always,
)
from weir.scheduler.reasons import Reason
from weir.scheduler.volumes import (
    CSINode,
    CSINodeResources,
    Storage,
    is_claim_of_pod,
    pod_claims,
    storage_class_of,
)

NAME: Final = "NodeVolumeLimits"
_REJECTED: Final = Status(Code.UNSCHEDULABLE, (TooManyVolumes.words,), NAME)


class NodeVolumeLimits(Plugin):
    name = NAME

    def __init__(self, table: NodeTable, storage: Storage, gates: Gates) -> None:
        self._table, self._storage = table, storage
        self._needs_driver = gates.enabled("VolumeLimitScaling")

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod without such volumes."""
        claims = next(pod_claims(pod.pod), None) is not None
        if not claims and not any(inline_handle(volume) for volume in pod.pod.spec.volumes or ()):
            return Extensions()
        return Extensions(
            filter=BoundNodeVolumeLimits(self._storage, pod.pod, self._table, self._needs_driver)
        )

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: always,
            CSI_NODE_ADD: always,
            CSI_NODE_UPDATE: self._attaches_more,
            POD_DELETE: self._frees_volumes,
            ATTACHMENT_DELETE: always,
            VOLUME_ADD: always,
            CLAIM_ADD: is_claim_of_pod,
        }

    def _frees_volumes(self, pod: Pod, event: ClusterEvent) -> bool:
        """A pod with volumes has gone."""
        return bool(relevant_volumes(event.old))

    def _attaches_more(self, pod: Pod, event: ClusterEvent) -> bool:
        """A driver is new on the node, or attaches more volumes than before."""
        before = {driver.name: driver.allocatable for driver in event.old.spec.drivers}

        def count(allocatable: CSINodeResources | None) -> int:
            return (allocatable.count or 0) if allocatable is not None else 0

        return any(
            driver.name not in before or count(driver.allocatable) > count(before[driver.name])
            for driver in event.new.spec.drivers
        )


class BoundNodeVolumeLimits(FilterPlugin):
    name = NAME
    scope = Scope.CLUSTER

    def __init__(self, storage: Storage, pod: Pod, table: NodeTable, needs_driver: bool) -> None:
        self._storage, self._pod, self._table, self._needs_driver = storage, pod, table, needs_driver
        self._missing: list[str] = []  #: drivers that some node lacks; their number is the node's code

    def codes(self, rows: Any) -> Ids:
        """Return 0, 1 for too many volumes, or a number that names a driver that is not installed."""
        codes: Ids = np.zeros(len(self._table.alive), np.int32)
        wanted = set(self._attached(self._pod))
        picky = self._picky({handle.driver for handle in wanted})
        if picky:
            self._missing = [*picky]
            for row in np.flatnonzero(self._table.alive[: self._table.size]).tolist():
                codes[row] = self._first_missing(row, picky)
        for name in self._storage.csi_nodes if wanted else ():
            place = self._table.row_of.get(name)
            if place is not None and not codes[place]:
                codes[place] = self._too_many(name, place, wanted) is not None
        return codes[rows]

    def _picky(self, drivers: set[str]) -> list[str]:
        """Return those of *drivers* whose volumes may only be used on nodes with the driver."""
        known = self._storage.csi_drivers
        if not self._needs_driver:
            return []
        return sorted(d for d in drivers if d in known and known[d].spec.prevent_pod_scheduling_if_missing)

    def _first_missing(self, row: int, picky: list[str]) -> int:
        node = self._table.nodes[row]
        assert node is not None
        csi_node = self._storage.csi_nodes.get(node.name)
        there = {driver.name for driver in csi_node.spec.drivers} if csi_node is not None else set()
        return next((number + 2 for number, driver in enumerate(picky) if driver not in there), 0)

    def _too_many(self, node: str, row: int, wanted: set[Handle]) -> TooManyVolumes | None:
        """Return the first driver that cannot attach what is *wanted* besides what it has there, or None."""
        limits = _limits(self._storage.csi_nodes[node])
        if not any(driver in limits for driver, _ in wanted):
            return None
        there = {
            volume
            for other in self._table.pods[row].values()
            if other.pod.spec.volumes
            for volume in self._attached(other.pod)
        }
        used = Counter(driver for driver, _ in there | self._still_attached(node))
        more = Counter(driver for driver, _ in wanted - there)
        return next(
            (
                TooManyVolumes(driver, limits[driver], used[driver])
                for driver, count in sorted(more.items())
                if driver in limits and used[driver] + count > limits[driver]
            ),
            None,
        )

    def _still_attached(self, node: str) -> set[Handle]:
        """Return everything that is attached to *node*, whether a pod uses it or not."""
        found: set[Handle] = set()
        for attachment in self._storage.attachments.values():
            spec = attachment.spec
            volume = self._storage.volumes.get(spec.source.persistent_volume_name or "")
            if spec.node_name == node and volume is not None and volume.spec.csi:
                found.add(Handle(spec.attacher, str(volume.spec.csi.get("volumeHandle"))))
        return found

    def _attached(self, pod: Pod) -> Iterator[Handle]:
        """Yield every volume of a CSI driver that *pod* uses or will use, on a node that has such drivers."""
        namespace = pod.metadata.namespace or "default"
        for volume in pod.spec.volumes or ():
            if (handle := inline_handle(volume)) is not None:
                yield handle
        for name, _ in pod_claims(pod):
            claim = self._storage.claim(namespace, name)
            if claim is None:
                continue
            bound = self._storage.volume(claim.spec.volume_name) if claim.spec.volume_name else None
            if bound is not None:
                if (handle := handle_of(bound)) is not None:
                    yield handle
                continue
            storage_class = self._storage.classes.get(storage_class_of(claim))
            if storage_class is not None and (driver := driver_of(storage_class.provisioner)):
                yield Handle(driver, f"{namespace}/{name}")

    def status(self, code: int) -> Status:
        if code < 2:
            return _REJECTED
        return Status(Code.UNSCHEDULABLE, (DriverMissing(self._missing[code - 2]).message(),), NAME)

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        if code >= 2:
            return (DriverMissing(self._missing[code - 2]),)
        node = self._table.nodes[row]
        assert node is not None
        found = self._too_many(node.name, row, set(self._attached(self._pod)))
        return (found,) if found is not None else ()


def _limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
