"""Published slices, devices and resource pools, indexed by pool, generation and name.

Spec: KEP-4381 "ResourceSlice", dra.md 3.1, 3.2 "Pools, generations, completeness". Only slices of the newest generation
count; the pool is complete when their number equals `resourceSliceCount`. Slices of older generations stay, because
deleting the last slice of the highest generation makes the previous one current again. Devices are indexed by full name
and by its parts, so that a rule with a partial selector finds its devices directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weir.devices.origin import TrackedTaint
from weir.devices.selector import Candidate
from weir.objects.resource import Device, DeviceID, DeviceTaintSelector, ResourceSlice

PoolKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pool:
    """The current slices of one pool, by name."""

    driver: str
    name: str
    generation: int
    slices: tuple[ResourceSlice, ...]
    complete: bool
    problems: tuple[str, ...] = field(default=())  #: why nothing may be allocated from it

    @property
    def usable(self) -> bool:
        """Whether devices of the pool may be newly allocated."""
        return self.complete and not self.problems

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


def current(key: PoolKey, generations: Mapping[int, Mapping[str, ResourceSlice]]) -> Pool:
    """Return the pool that the slices of all *generations* (at least one) amount to."""
    newest = max(generations)
    slices = tuple(generations[newest][name] for name in sorted(generations[newest]))
    complete = any(len(slices) == found.spec.pool.resource_slice_count for found in slices)
    return Pool(*key, newest, slices, complete, tuple(_problems(slices)))


def _problems(slices: Sequence[ResourceSlice]) -> Iterator[str]:
    devices = Counter(device.name for found in slices for device in found.spec.devices or ())
    yield from (f"duplicate device {name}" for name, times in devices.items() if times > 1)
    sets = [counters for found in slices for counters in found.spec.shared_counters or ()]
    yield from (f"duplicate counter set {name}" for name, n in Counter(s.name for s in sets).items() if n > 1)
    known = {counters.name: counters.counters or {} for counters in sets}
    for found in slices:
        for device in found.spec.devices or ():
            for consumed in device.consumes_counters or ():
                if consumed.counter_set not in known:
                    yield f"device {device.name} consumes unknown counter set {consumed.counter_set}"
                    continue
                for counter in consumed.counters or ():
                    if counter not in known[consumed.counter_set]:
                        yield f"device {device.name} consumes unknown counter {consumed.counter_set}/{counter}"


class TrackedDevice(Candidate):
    """A published device with its taints; the tracker keeps it up to date."""

    __slots__ = ("driver_taints", "numbered", "rule_taints", "slice")

    def __init__(self, name: DeviceID, device: Device, slice_name: str) -> None:
        super().__init__(name, device)
        self.slice = slice_name
        self.driver_taints: tuple[TrackedTaint, ...] = ()
        self.rule_taints: tuple[TrackedTaint, ...] = ()
        self.numbered: list[tuple[object, ...]] = []  # identities of the driver taints

    def same_attributes(self, other: TrackedDevice) -> bool:
        """Return whether expressions see the same in both; what was read of *other* need not be read again."""
        mine, its = self.device, other.device
        assert mine is not None and its is not None
        if (mine.attributes, mine.capacity, mine.allow_multiple_allocations) != (
            its.attributes,
            its.capacity,
            its.allow_multiple_allocations,
        ):
            return False
        self._seen, self._error = other._seen, other._error
        return True

    @property
    def taints(self) -> tuple[TrackedTaint, ...]:
        """All taints: the device's own, those of taint slices, those of rules."""
        return self.driver_taints + self.rule_taints


class Published:
    """Slices and devices, updated by weir.devices.tracker.Tracker."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._pools: dict[PoolKey, dict[int, dict[str, ResourceSlice]]] = {}
        self._summaries: dict[PoolKey, Pool] = {}
        self._tracked: dict[str, tuple[TrackedDevice, ...]] = {}
        self._by_driver: dict[str, dict[PoolKey, None]] = {}
        self._by_pool: dict[str, dict[PoolKey, None]] = {}
        self._by_device: dict[str, dict[TrackedDevice, None]] = {}
        self._by_id: dict[DeviceID, list[TrackedDevice]] = {}  # more than one while generations overlap

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def slices(self) -> Iterable[ResourceSlice]:
        """Return every slice, also those of generations that no longer count."""
        return self._slices.values()

    def find_slice(self, name: str) -> ResourceSlice | None:
        """Return the slice called *name*, of whatever generation."""
        return self._slices.get(name)

    def devices(self, slice_name: str) -> tuple[TrackedDevice, ...]:
        """Return the devices of one slice with their taints."""
        return self._tracked.get(slice_name, ())

    def pools(self) -> Iterator[Pool]:
        """Return every pool with its current slices, by driver and name."""
        for key in sorted(self._pools):
            found = self.find_pool(key)
            assert found is not None
            yield found

    def find_pool(self, key: PoolKey) -> Pool | None:
        """Return one pool with its current slices, or None when it is not published."""
        found = self._summaries.get(key)
        if found is None and key in self._pools:
            found = self._summaries[key] = current(key, self._pools[key])
        return found

    def current_devices(self) -> Iterator[TrackedDevice]:
        """Return the devices of current slices, by driver, pool, slice and position."""
        for pool in self.pools():
            for found in pool.slices:
                yield from self._tracked.get(found.name, ())

    def find_device(self, name: DeviceID) -> TrackedDevice | None:
        """Return the device as a current slice publishes it, or None."""
        generations = self._pools.get((name.driver, name.pool))
        if not generations:
            return None
        newest = generations[max(generations)]
        for device in self._by_id.get(name, ()):
            if device.slice in newest:
                return device
        return None

    def is_current(self, device: TrackedDevice) -> bool:
        """Return whether the device is published by a slice of its pool's newest generation."""
        generations = self._pools.get((device.id.driver, device.id.pool), {})
        return bool(generations) and device.slice in generations[max(generations)]

    def generation(self, key: PoolKey) -> int | None:
        """Return the newest generation of a pool, or None when no slice is left of it."""
        generations = self._pools.get(key)
        return max(generations) if generations else None

    # ── filing ───────────────────────────────────────────────────────────────────────────────────

    def _file(self, found: ResourceSlice, *, add: bool) -> None:
        key, generation = found.pool_key, found.spec.pool.generation
        self._summaries.pop(key, None)
        if add:
            self._pools.setdefault(key, {}).setdefault(generation, {})[found.name] = found
            self._by_driver.setdefault(key[0], {})[key] = None
            self._by_pool.setdefault(key[1], {})[key] = None
            return
        generations = self._pools[key]
        del generations[generation][found.name]
        if generations[generation]:
            return
        del generations[generation]
        if not generations:
            del self._pools[key]
            for index, part in ((self._by_driver, key[0]), (self._by_pool, key[1])):
                del index[part][key]
                if not index[part]:
                    del index[part]

    def _file_device(self, device: TrackedDevice) -> None:
        self._by_device.setdefault(device.id.device, {})[device] = None
        self._by_id.setdefault(device.id, []).append(device)

    def _unfile_device(self, device: TrackedDevice) -> None:
        named = self._by_device[device.id.device]
        del named[device]
        if not named:
            del self._by_device[device.id.device]
        same = self._by_id[device.id]
        same.remove(device)
        if not same:
            del self._by_id[device.id]

    def _named(self, selector: DeviceTaintSelector) -> Iterator[TrackedDevice]:
        """Return the devices, of all generations, that *selector* can be about by the names it gives."""
        pools: Iterable[PoolKey]
        if selector.driver is not None and selector.pool is not None:
            pools = [(selector.driver, selector.pool)]
        elif selector.device is not None:
            yield from self._by_device.get(selector.device, ())
            return
        elif selector.driver is not None:
            pools = self._by_driver.get(selector.driver, ())
        elif selector.pool is not None:
            pools = self._by_pool.get(selector.pool, ())
        else:
            pools = self._pools
        for key in pools:
            for members in self._pools.get(key, {}).values():
                for name in members:
                    yield from self._tracked.get(name, ())
