"""VolumeZone: a volume with zone or region labels is usable on nodes of that zone or region.

Spec: core.md 3.6. Older than the volumes' node affinity and still checked. A label may list several zones (`a__b`);
the beta label and its successor are equivalent; a node without any such label accepts every volume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from weir.objects.core import Pod
from weir.objects.volumes import PersistentVolume
from weir.scheduler.claim_reasons import WrongVolumeZone
from weir.scheduler.framework import Code, Extensions, FilterPlugin, Plugin, PreFilterPlugin, Scope, Status
from weir.scheduler.node_columns import Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.pod_class import PodClass
from weir.scheduler.queueing_hints import (
    CLAIM_ADD,
    CLAIM_UPDATE,
    CLASS_ADD,
    NODE_ADD,
    NODE_LABEL,
    VOLUME_ADD,
    VOLUME_UPDATE,
    QueueingHint,
    always,
)
from weir.scheduler.reasons import Reason
from weir.scheduler.volumes import Storage, is_claim_of_pod, pod_claims, storage_class_of

NAME: Final = "VolumeZone"
_REJECTED: Final = Status(Code.UNRESOLVABLE, (WrongVolumeZone.words,), NAME)
#: Each label, and the one that stands for it on nodes that do not have it.
LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}


def zones(text: str) -> frozenset[str]:
    """Return the zones a volume's label lists.

    >>> sorted(zones("a__b"))
    ['a', 'b']
    """
    return frozenset(part.strip() for part in text.split("__"))


class VolumeZone(Plugin):
    name = NAME

    def __init__(self, table: NodeTable, storage: Storage) -> None:
        self._table, self._storage = table, storage

    def for_class(self, pod: PodClass) -> Extensions:
        """Return the check; none for a pod without claims."""
        if not any(not claim.ephemeral for claim in pod_claims(pod.pod)):
            return Extensions()
        bound = BoundVolumeZone(self._storage, pod.pod, self._table)
        return Extensions(pre_filter=bound, filter=bound)

    def events_to_register(self) -> Mapping[str, QueueingHint]:
        return {
            NODE_ADD: always,
            NODE_LABEL: always,
            VOLUME_ADD: always,
            VOLUME_UPDATE: always,
            CLAIM_ADD: is_claim_of_pod,
            CLAIM_UPDATE: is_claim_of_pod,
            CLASS_ADD: always,
        }


class BoundVolumeZone(FilterPlugin, PreFilterPlugin):
    name = NAME
    scope = Scope.CLUSTER

    def __init__(self, storage: Storage, pod: Pod, table: NodeTable) -> None:
        self._storage, self._pod, self._table = storage, pod, table
        self._seen: object = None
        self._codes: Ids = np.zeros(0, np.int32)

    def _volumes(self) -> list[PersistentVolume] | Status:
        found: list[PersistentVolume] = []
        namespace = self._pod.metadata.namespace or "default"
        for name, ephemeral in pod_claims(self._pod):
            if ephemeral:
                continue
            claim = self._storage.claim(namespace, name)
            if claim is None:
                return _unresolvable(f'persistentvolumeclaim "{name}" not found')
            if not claim.spec.volume_name:
                class_name = storage_class_of(claim)
                if not class_name:
                    return _unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
                if class_name not in self._storage.classes:
                    return _unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
                if self._storage.waits_for_consumer(claim):
                    continue
                return _unresolvable("PersistentVolume had no name")
            volume = self._storage.volume(claim.spec.volume_name)
            if volume is None:
                return _unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
            found.append(volume)
        return found

    def pre_filter(self) -> Status | None:
        volumes = self._volumes()
        return volumes if isinstance(volumes, Status) else None

    def codes(self, rows: Any) -> Ids:
        seen = (self._storage.version, self._table.nodes_version)
        if seen != self._seen:
            self._seen = seen
            self._codes = self._judge()
        return self._codes[rows]

    def _judge(self) -> Ids:
        codes: Ids = np.zeros(len(self._table.alive), np.int32)
        volumes = self._volumes()
        if isinstance(volumes, Status):
            return codes  # PreFilter refuses the pod
        if any(key in LABELS for volume in volumes for key in volume.metadata.labels or ()):
            for row in np.flatnonzero(self._table.alive[: self._table.size]).tolist():
                node = self._table.nodes[row]
                assert node is not None
                codes[row] = next(_elsewhere(volumes, node.labels), None) is not None
        return codes

    def status(self, code: int) -> Status:
        return _REJECTED

    def reasons(self, row: int, code: int) -> tuple[Reason, ...]:
        node, volumes = self._table.nodes[row], self._volumes()
        assert node is not None
        return () if isinstance(volumes, Status) else tuple(_elsewhere(volumes, node.labels))[:1]


def _elsewhere(volumes: list[PersistentVolume], labels: Mapping[str, str]) -> Iterator[WrongVolumeZone]:
    """Yield the labels of *volumes* that a node with *labels* does not match; one without any takes them all."""
    if not any(key in labels for key in LABELS):
        return
    for volume in volumes:
        for key, value in (volume.metadata.labels or {}).items():
            if key in LABELS:
                found = labels.get(key, labels.get(LABELS[key]))
                if found not in zones(value):
                    yield WrongVolumeZone(volume.metadata.name, key, value, found)


def _unresolvable(text: str) -> Status:
    return Status(Code.UNRESOLVABLE, (text,), NAME)
