"""Resource pools: current generation, completeness and validity.

Spec: KEP-4381 "ResourceSlice", dra.md 3.2 "Pools, generations, completeness". Only slices of the highest generation
count; the pool is complete when their number equals `resourceSliceCount`. Deleting the last slice of the highest
generation makes the previous one current again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weir.objects.resource import ResourceSlice

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
