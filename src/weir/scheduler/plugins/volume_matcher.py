"""Volumes for a pod's unbound claims on each node: existing ones that match, or dynamic provisioning.

Spec: core.md 3.7.6. The smallest free volume that matches is taken, one pre-bound to the claim first; otherwise the
class may provision, where its topology and the driver's capacity allow.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from weir.objects.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.scheduler.node_columns import Bools, Ids
from weir.scheduler.node_table import NodeTable
from weir.scheduler.plugins.node_affinity import LabelJudge
from weir.scheduler.plugins.volume_reservation import Plan
from weir.scheduler.pod_counts import read_selector
from weir.scheduler.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    Storage,
    belongs_to,
    bytes_of,
    requested_bytes,
    storage_class_of,
)


def usable_on(volume: PersistentVolume, labels: LabelJudge) -> Bools:
    """Return the nodes *volume* may be used on."""
    size = labels.table.size
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity else None
    if required is None:
        return np.ones(size, np.bool_)
    found: Bools = np.zeros(size, np.bool_)
    for term in required.node_selector_terms or ():
        found |= labels.matches(term, slice(0, size), fields=False)
    return found


#: Why a node has nothing for a claim: two bits of the codes of VolumeBinding.
NOTHING_TO_BIND: Final = 2
NO_SPACE: Final = 4


class VolumeMatcher:
    """Finds volumes for waiting claims, node by node; nodes with the same choice are judged once."""

    def __init__(
        self,
        claims: tuple[PersistentVolumeClaim, ...],
        storage: Storage,
        table: NodeTable,
        labels: LabelJudge,
    ) -> None:
        self._storage, self._table, self._labels = storage, table, labels
        self._claims = sorted(claims, key=lambda claim: requested_bytes(claim) or 0)
        self._candidates = [self._qualifying(claim) for claim in self._claims]
        self._there = [self._usable_by_row(volumes) for volumes in self._candidates]
        self._known: dict[tuple[object, ...], Plan] = {}
        self._capacity: list[dict[int, int]] = [{} for _ in self._claims]  #: by row, where the driver says
        self._provision = [
            self._where_provisioned(claim, capacity)
            for claim, capacity in zip(self._claims, self._capacity, strict=True)
        ]

    def _qualifying(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the volumes that fit *claim* wherever they are, the smallest first, its own before all."""
        wanted = requested_bytes(claim) or 0
        found: list[tuple[bool, int, PersistentVolume]] = []
        for volume in self._storage.volumes_of_class(storage_class_of(claim)):
            own = belongs_to(volume, claim)
            size = bytes_of((volume.spec.capacity or {}).get("storage")) or 0
            if (volume.spec.claim_ref is not None and not own) or size < wanted:
                continue
            if not _same_kind(volume, claim) or volume.metadata.deletion_timestamp:
                continue
            if not own and not _free_for(volume, claim):
                continue
            found.append((not own, size, volume))
        found.sort(key=lambda entry: entry[:2])
        return [volume for _, _, volume in found]

    def plan(self, row: int) -> Plan:
        """Return what to do on the node in *row*."""
        node = self._table.nodes[row]
        assert node is not None
        there = tuple(by_row.get(row, ()) for by_row in self._there)
        selected = tuple(
            (claim.metadata.annotations or {}).get(SELECTED_NODE, node.name) == node.name
            for claim in self._claims
        )
        key = (
            there,
            selected,
            tuple(int(codes[row]) for codes in self._provision),
            tuple(capacity.get(row) for capacity in self._capacity),
        )
        plan = self._known.get(key)
        if plan is None:
            plan = self._known[key] = self._find(row, there, selected)
        return plan

    def _usable_by_row(self, volumes: list[PersistentVolume]) -> dict[int, tuple[int, ...]]:
        """Return, for each row, the numbers of the volumes that may be used there."""
        if not volumes:
            return {}
        rows, numbers = np.nonzero(np.array([usable_on(volume, self._labels) for volume in volumes]).T)
        found: dict[int, list[int]] = {}
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            found.setdefault(row, []).append(number)
        return {row: tuple(members) for row, members in found.items()}

    def _find(self, row: int, there: tuple[tuple[int, ...], ...], selected: tuple[bool, ...]) -> Plan:
        if not all(selected):
            return Plan(refused=NOTHING_TO_BIND)
        plan = Plan()
        chosen: set[str] = set()
        provided, unmatched = [], []
        for number, claim in enumerate(self._claims):
            if SELECTED_NODE in (claim.metadata.annotations or {}):
                provided.append(number)  # a provisioner is at work on it already
                continue
            volume = self._first(number, claim, there[number], chosen)
            if volume is None:
                unmatched.append(number)
                continue
            chosen.add(volume.metadata.name)
            plan.bindings.append((volume, claim))
        for number in (*provided, *unmatched):
            refused = int(self._provision[number][row])
            if refused:
                return Plan(refused=refused)
            plan.provisions.append(self._claims[number])
            plan.capacities.append(self._capacity[number].get(row))
        return plan

    def shares(self, plan: Plan) -> list[int]:
        """Return, for each class, how much of its storage (in percent) the claims would take by *plan*."""
        wanted: dict[str, int] = {}
        there: dict[str, int] = {}
        for volume, claim in plan.bindings:
            name = storage_class_of(claim)
            wanted[name] = wanted.get(name, 0) + (requested_bytes(claim) or 0)
            there[name] = there.get(name, 0) + (bytes_of((volume.spec.capacity or {}).get("storage")) or 0)
        if not plan.bindings:
            for claim, capacity in zip(plan.provisions, plan.capacities, strict=True):
                if capacity is not None:
                    name = storage_class_of(claim)
                    wanted[name] = wanted.get(name, 0) + (requested_bytes(claim) or 0)
                    there[name] = capacity  # all claims of the class take from one pool
        return [
            100 if not there[name] or wanted[name] > there[name] else 100 * wanted[name] // there[name]
            for name in wanted
        ]

    def _first(
        self, number: int, claim: PersistentVolumeClaim, there: tuple[int, ...], chosen: set[str]
    ) -> PersistentVolume | None:
        volumes = self._candidates[number]
        if volumes and belongs_to(volumes[0], claim):  # its own volume or none
            return volumes[0] if 0 in there else None
        free = (volumes[i] for i in there if volumes[i].metadata.name not in chosen)
        return next(free, None)

    # ── provisioning ──

    def _where_provisioned(self, claim: PersistentVolumeClaim, capacities: dict[int, int]) -> Ids:
        """Return 0 where a volume can be made for *claim*, else why not; note in *capacities* of how much."""
        storage_class = self._storage.classes.get(storage_class_of(claim))
        size = self._table.size
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return np.full(size, NOTHING_TO_BIND, np.int32)
        codes: Ids = np.zeros(size, np.int32)
        wanted = requested_bytes(claim)
        driver = self._storage.csi_drivers.get(storage_class.provisioner)
        counted = wanted is not None and driver is not None and bool(driver.spec.storage_capacity)
        for row in np.flatnonzero(self._table.alive[:size]).tolist():
            node = self._table.nodes[row]
            assert node is not None
            if not _topology_allows(storage_class, node.labels):
                codes[row] = NOTHING_TO_BIND
            elif counted:
                capacity = self._find_space(storage_class, wanted or 0, node.labels)
                if capacity is None:
                    codes[row] = NO_SPACE
                else:
                    capacities[row] = capacity
        return codes

    def _find_space(self, storage_class: StorageClass, wanted: int, labels: dict[str, str]) -> int | None:
        """Return how much there is of a pool that has *wanted* bytes for nodes with these *labels*."""
        for capacity in self._storage.capacities.values():
            if capacity.storage_class_name != storage_class.metadata.name:
                continue
            largest = capacity.maximum_volume_size
            limit = bytes_of(largest if largest is not None else capacity.capacity)
            selector = read_selector(capacity.node_topology)
            if limit is not None and limit >= wanted and selector is not None and selector.matches(labels):
                return bytes_of(capacity.capacity) or 0
        return None


def _same_kind(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    modes = (volume.spec.volume_mode or "Filesystem", claim.spec.volume_mode or "Filesystem")
    classes = (volume.spec.volume_attributes_class_name or "", claim.spec.volume_attributes_class_name or "")
    return modes[0] == modes[1] and classes[0] == classes[1]


def _free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if volume.status.phase != "Available":
        return False
    if claim.spec.selector is not None:
        selector = read_selector(claim.spec.selector)
        if selector is None or not selector.matches(volume.metadata.labels or {}):
            return False
    return set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())


def _topology_allows(storage_class: StorageClass, labels: dict[str, str]) -> bool:
    terms = storage_class.allowed_topologies or ()
    if not terms:
        return True
    return any(
        expressions and all(labels.get(e.get("key", "")) in (e.get("values") or ()) for e in expressions)
        for term in terms
        for expressions in (term.get("matchLabelExpressions") or (),)
    )
