"""VolumeRestrictions: disks that can be used once per node, and ReadWriteOncePod claims.

Spec: core.md 3.6 (reasons). GCE and AWS disks, iSCSI and RBD volumes in the pod's own spec conflict with pods on the
same node; a ReadWriteOncePod claim conflicts with any other pod that uses it. Preemption may help with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from weir.objects.core import Pod, Volume
from weir.scheduler.claim_reasons import ClaimInUse, DiskInUse
from weir.scheduler.framework import Code, Extensions, FilterPlugin, Plugin, PreFilterPlugin, Scope, Status
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import CLAIM_ADD, CLAIM_UPDATE, NODE_ADD, POD_DELETE, QueueingHint, always
from weir.scheduler.reasons import Reason
from weir.scheduler.volumes import Storage, is_claim_of_pod, pod_claims

NAME: Final = "VolumeRestrictions"
_DISK: Final = Status(Code.UNSCHEDULABLE, (DiskInUse.words,), NAME)
_ONCE: Final = Status(Code.UNSCHEDULABLE, (ClaimInUse.words,), NAME)


def disks_conflict(mine: Volume, theirs: Volume) -> bool:
    """Return whether two volumes cannot be used on one node at once."""
    if mine.gce_persistent_disk and theirs.gce_persistent_disk:
        a, b = mine.gce_persistent_disk, theirs.gce_persistent_disk
        return a.get("pdName") == b.get("pdName") and not _both_read(a, b)
    if mine.aws_elastic_block_store and theirs.aws_elastic_block_store:
        same = mine.aws_elastic_block_store.get("volumeID") == theirs.aws_elastic_block_store.get("volumeID")
        return bool(same)
    if mine.iscsi and theirs.iscsi:
        return mine.iscsi.get("iqn") == theirs.iscsi.get("iqn") and not _both_read(mine.iscsi, theirs.iscsi)
    if mine.rbd and theirs.rbd:
        a, b = mine.rbd, theirs.rbd
        monitors = bool(_monitors(a) & _monitors(b))
        same = monitors and (a.get("pool", "rbd"), a.get("image")) == (b.get("pool", "rbd"), b.get("image"))
        return same and not _both_read(a, b)
    return False


def _monitors(rbd: dict[str, Any]) -> set[str]:
    """Return the monitors that *rbd* lists; a snapshot written by hand may hold anything there."""
    listed = rbd.get("monitors")
    return {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else set()


def _both_read(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a.get("readOnly")) and bool(b.get("readOnly"))


def _is_disk(volume: Volume) -> bool:
    return bool(volume.gce_persistent_disk or volume.aws_elastic_block_store or volume.iscsi or volume.rbd)


class VolumeRestrictions(Plugin):
    name = NAME

    def __init__(self, table: NodeTable, storage: Storage) -> None:
        self._table, self._storage = table, storage

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod without such volumes."""
        volumes = pod.pod.spec.volumes or ()
        if not any(_is_disk(v) or v.persistent_volume_claim for v in volumes):
            return Extensions()
        bound = BoundVolumeRestrictions(self._storage, pod.pod, self._table)
        return Extensions(pre_filter=bound, filter=bound)

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: always,
            POD_DELETE: always,
            CLAIM_ADD: is_claim_of_pod,
            CLAIM_UPDATE: is_claim_of_pod,
        }


class BoundVolumeRestrictions(FilterPlugin, PreFilterPlugin):
    name = NAME
    scope = Scope.CLUSTER

    def __init__(self, storage: Storage, pod: Pod, table: NodeTable) -> None:
        self._storage, self._pod, self._table = storage, pod, table
        self._disks = [volume for volume in pod.spec.volumes or () if _is_disk(volume)]
        self._namespace = pod.metadata.namespace or "default"
        self._claims = {c.name for c in pod_claims(pod) if not c.ephemeral}

    def pre_filter(self) -> Status | None:
        for name in sorted(self._claims):
            if self._storage.claim(self._namespace, name) is None:
                return Status(Code.UNRESOLVABLE, (f'persistentvolumeclaim "{name}" not found',), NAME)
        return None

    def codes(self, rows: Any) -> Ids:
        """Return 0, 1 for a disk in use on the node, 2 for a claim that another pod holds."""
        table = self._table
        codes: Ids = np.zeros(len(table.alive), np.int32)
        if self._held_elsewhere():
            codes[:] = 2
        for disk in self._disks:
            for row, pods in enumerate(table.pods):
                if any(disks_conflict(disk, v) for p in pods.values() for v in p.pod.spec.volumes or ()):
                    codes[row] = 1
        return codes[rows]

    def _held_elsewhere(self) -> bool:
        """Return whether a pod on some node uses a claim that only one pod may use."""
        once = {
            name
            for name in self._claims
            if (claim := self._storage.claim(self._namespace, name)) is not None
            and "ReadWriteOncePod" in (claim.spec.access_modes or ())
        }
        if not once:
            return False
        return any(
            other.namespace == self._namespace and claim.name in once
            for pods in self._table.pods
            for other in pods.values()
            if other.pod.spec.volumes
            for claim in pod_claims(other.pod)
        )

    def status(self, code: int) -> Status:
        return _DISK if code == 1 else _ONCE

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        return (DiskInUse() if code == 1 else ClaimInUse(),)
