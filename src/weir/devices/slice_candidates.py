"""Slices visible to a node, in the allocator's search order.

Spec: dra.md 4.6 "Allocator" (search order, node selection), 3.2 (pools). Pools by driver and name, those with binding
conditions last; slices by name. Indexed by node and updated pool by pool, so that one node costs only its own slices.
A slice that is not local to one node is a candidate for every node it covers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weir.devices.outcome import SliceCandidate
from weir.devices.published import Pool, PoolKey, TrackedDevice
from weir.devices.tracker import Tracker
from weir.gates import Gates
from weir.objects.core import Node
from weir.objects.resource import ResourceSlice
from weir.selectors import node as node_selectors


class SliceCandidates:
    """The slices of a tracker by the nodes they are usable from."""

    def __init__(self, tracker: Tracker, gates: Gates) -> None:
        self._tracker, self._gates = tracker, gates
        self._partitions = gates.enabled("DRAPartitionableDevices")
        self._pool_of: dict[str, PoolKey] = {}  # by slice name
        self._of_pool: dict[PoolKey, list[SliceCandidate]] = {}
        self._local: dict[str, dict[PoolKey, None]] = {}  # by node name
        self._wide: dict[PoolKey, None] = {}
        self._sorted: dict[str, list[SliceCandidate]] = {}  # by node name; "" for what is not local
        self._local_devices: dict[
            str, list[tuple[SliceCandidate, TrackedDevice]]
        ] = {}  # while nothing is wide
        for pool in tracker.pools():
            self._add(pool)

    def refresh(self, slices: Iterable[str]) -> set[str]:
        """Read the pools of *slices* anew; return the names of the nodes concerned, with "" for all of them."""
        keys: dict[PoolKey, None] = {}
        for name in slices:
            before, now = self._pool_of.pop(name, None), self._tracker.find_slice(name)
            if before is not None:
                keys[before] = None
            if now is not None:
                keys[now.pool_key] = None
        touched: set[str] = set()
        for key in keys:
            touched |= self._remove(key)
            pool = self._tracker.find_pool(key)
            if pool is not None:
                touched |= self._add(pool)
        for node in touched:
            self._sorted.pop(node, None)
            self._local_devices.pop(node, None)
        return touched

    def pool_of(self, slice_name: str) -> PoolKey | None:
        """Return the pool of a current slice."""
        return self._pool_of.get(slice_name)

    def devices_of(self, slice_name: str) -> tuple[TrackedDevice, ...]:
        """Return the devices of one slice as they were read last."""
        candidates = self._of_pool.get(self._pool_of.get(slice_name, ("", "")), ())
        return next((candidate.devices for candidate in candidates if candidate.slice.name == slice_name), ())

    def devices_in(self, key: PoolKey) -> Iterator[TrackedDevice]:
        """Return the devices of a pool; none when nothing may be allocated from it."""
        for candidate in self._of_pool.get(key, ()):
            if candidate.pool.usable:
                yield from candidate.devices

    def nodes_of(self, key: PoolKey) -> set[str]:
        """Return the nodes that devices of a pool are local to, with "" when some are local to none."""
        return {candidate.slice.spec.node_name or "" for candidate in self._of_pool.get(key, ())}

    def on(self, node: Node) -> list[SliceCandidate]:
        """Return the slices usable from *node*, in the order of the search."""
        local = self._in_order(node.name, self._local.get(node.name, ()))
        if not self._wide:
            return local
        wide = [
            candidate for candidate in self._in_order("", self._wide) if self._reaches(candidate.slice, node)
        ]
        return sorted((*local, *wide), key=_order) if wide and local else wide or local

    def devices_on(self, node: Node) -> list[tuple[SliceCandidate, TrackedDevice]]:
        """Return the devices of usable pools that can be used from *node*, in the order of the search."""
        if self._wide:
            return self._devices(self.on(node), node)
        found = self._local_devices.get(node.name)
        if found is None:
            found = self._local_devices[node.name] = self._devices(self.on(node), node)
        return found

    def _devices(
        self, candidates: Iterable[SliceCandidate], node: Node
    ) -> list[tuple[SliceCandidate, TrackedDevice]]:
        return [
            (candidate, device)
            for candidate in candidates
            if candidate.pool.usable
            for device in candidate.devices
            if self.usable_on(candidate, device, node)
        ]

    def usable_on(self, candidate: SliceCandidate, device: TrackedDevice, node: Node) -> bool:
        """Return whether a device of a slice that reaches the node does so itself."""
        if not candidate.slice.spec.per_device_node_selection:
            return True
        own = device.device
        if own is None:
            return False
        if own.node_name is not None:
            return own.node_name == node.name
        if own.node_selector is not None:
            return node_selectors.selects(own.node_selector, node.labels, node.name, self._gates)
        return bool(own.all_nodes)

    def _reaches(self, found: ResourceSlice, node: Node) -> bool:
        spec = found.spec
        if spec.per_device_node_selection or spec.all_nodes:
            return True
        return spec.node_selector is not None and node_selectors.selects(
            spec.node_selector, node.labels, node.name, self._gates
        )

    def _in_order(self, node: str, keys: Iterable[PoolKey]) -> list[SliceCandidate]:
        found = self._sorted.get(node)
        if found is None:
            candidates = [
                candidate
                for key in keys
                for candidate in self._of_pool[key]
                if (candidate.slice.spec.node_name or "") == node
            ]
            found = self._sorted[node] = sorted(candidates, key=_order)
        return found

    def _add(self, pool: Pool) -> set[str]:
        key = (pool.driver, pool.name)
        waits = any(device.binding_conditions for found in pool.slices for device in found.spec.devices or ())
        candidates = self._of_pool[key] = [
            SliceCandidate(pool, found, self._tracker.devices(found.name), waits)
            for found in pool.slices
            if self._partitions or not found.spec.per_device_node_selection
        ]
        for found in pool.slices:
            self._pool_of[found.name] = key
        for candidate in candidates:
            self._index(candidate.slice.spec.node_name or "")[key] = None
        return {candidate.slice.spec.node_name or "" for candidate in candidates}

    def _remove(self, key: PoolKey) -> set[str]:
        nodes = {candidate.slice.spec.node_name or "" for candidate in self._of_pool.pop(key, ())}
        for node in nodes:
            self._index(node).pop(key, None)
            if node and not self._local[node]:
                del self._local[node]
        return nodes

    def _index(self, node: str) -> dict[PoolKey, None]:
        return self._local.setdefault(node, {}) if node else self._wide


def _order(candidate: SliceCandidate) -> tuple[bool, str, str, str]:
    pool = candidate.pool
    return candidate.waits, pool.driver, pool.name, candidate.slice.name
