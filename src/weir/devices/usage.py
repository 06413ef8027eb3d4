"""Devices in use, and what remains of shared counters and consumable capacity.

Spec: KEP-4815 (counters), KEP-5075 (consumable capacity), dra.md 4.2 (devices in use), 4.8 "Counters and capacity". A
device belongs to one claim unless it allows multiple allocations; then every share takes its part of the capacity.
Results with admin access use nothing. A capacity that is not requested is taken by its policy's default, or whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any

from weir.devices.published import Pool, PoolKey
from weir.objects.resource import Device, DeviceID, DeviceRequestAllocationResult, ResourceClaim
from weir.values.quantity import Quantity, QuantityError, parse_quantity

Amounts = dict[str, Quantity]
_ZERO = parse_quantity("0")


class InUse:
    """Devices that claims hold: whole, or shares of them by capacity. Claims may come and go one at a time."""

    __slots__ = ("_by_pool", "_holders", "consumed")

    def __init__(self) -> None:
        self._holders: Counter[DeviceID] = (
            Counter()
        )  # whole devices; a promise and its claim may both hold one
        self._by_pool: dict[PoolKey, Counter[str]] = {}  # devices of a pool that are held, whole or in part
        self.consumed: dict[DeviceID, Amounts] = {}

    @property
    def devices(self) -> Set[DeviceID]:
        """The devices that are held whole."""
        return self._holders.keys()

    def held_in(self, pool: PoolKey) -> Iterable[str]:
        """Return the names of the devices of *pool* that are held, whole or in part."""
        return self._by_pool.get(pool, ())

    def add(self, results: Iterable[DeviceRequestAllocationResult]) -> None:
        """Note that a claim holds *results*."""
        self._count(results, 1)

    def remove(self, results: Iterable[DeviceRequestAllocationResult]) -> None:
        """Note that a claim no longer holds *results*, which were added before."""
        self._count(results, -1)

    def _count(self, results: Iterable[DeviceRequestAllocationResult], times: int) -> None:
        for result in results:
            if result.admin_access:
                continue
            device = result.id
            held = self._by_pool.setdefault(device[:2], Counter())
            held[device.device] += times
            if not held[device.device]:
                del held[device.device]
                if not held:
                    del self._by_pool[device[:2]]
            if result.share_id is None:
                self._holders[device] += times
                if not self._holders[device]:
                    del self._holders[device]
                continue
            amounts = self.consumed.setdefault(device, {})
            for name, text in (result.consumed_capacity or {}).items():
                amount = _amount(text)
                amounts[name] = amounts.get(name, _ZERO) + (amount if times > 0 else -amount)
            if device.device not in self._by_pool.get(device[:2], ()):
                del self.consumed[device]

    @classmethod
    def of(cls, claims: Iterable[ResourceClaim]) -> InUse:
        """Return what allocated *claims* hold.

        >>> from weir.objects.core import read
        >>> result = {"driver": "d", "pool": "p", "device": "gpu-0"}
        >>> claim = {"status": {"allocation": {"devices": {"results": [result]}}}}
        >>> [str(device) for device in InUse.of([read(ResourceClaim, claim)]).devices]
        ['d/p/gpu-0']
        """
        found = cls()
        for claim in claims:
            found.add(claim.results)
        return found


def _amount(text: Any) -> Quantity:
    try:
        return parse_quantity(str(text))
    except QuantityError:
        return _ZERO  # refused by validation; nothing can be taken of what cannot be read


# ── counters ─────────────────────────────────────────────────────────────────────────────────────


def counters_left(pool: Pool, used: Iterable[str]) -> dict[tuple[str, str], Quantity]:
    """Return what is left of a pool's counters, by set and name, after the devices named *used* took theirs."""
    left = {
        (shared.name, name): _amount(counter.value)
        for found in pool.slices
        for shared in found.spec.shared_counters or ()
        for name, counter in (shared.counters or {}).items()
    }
    taken = set(used)
    for found in pool.slices:
        for device in found.spec.devices or ():
            if device.name in taken:
                for key, amount in counters_needed(device).items():
                    left[key] = left.get(key, _ZERO) - amount
    return left


def counters_needed(device: Device) -> dict[tuple[str, str], Quantity]:
    """Return what a device takes from its pool's counters."""
    return {
        (consumed.counter_set, name): _amount(counter.value)
        for consumed in device.consumes_counters or ()
        for name, counter in (consumed.counters or {}).items()
    }


# ── capacity ─────────────────────────────────────────────────────────────────────────────────────


def capacity_needed(device: Device, asked: Mapping[str, Any]) -> Amounts | None:
    """Return what a share of *device* takes of each capacity, or None when it cannot serve *asked*.

    For a device that is not shared the result is empty: there a request is only a minimum.
    """
    capacity = device.capacity or {}
    if not asked.keys() <= capacity.keys():
        return None  # a capacity the device does not have under this very name
    wanted = {name: _amount(text) for name, text in asked.items()}
    taken: Amounts = {}
    for name, entry in capacity.items():
        whole = _amount(entry.get("value", "0"))
        amount: Quantity | None = wanted.get(name)
        if device.allow_multiple_allocations:
            amount = _rounded(entry.get("requestPolicy") or {}, amount, whole)
            if amount is None or whole < amount:
                return None
            taken[name] = amount
        elif amount is not None and whole < amount:
            return None
    return taken


def _rounded(policy: Mapping[str, Any], asked: Quantity | None, whole: Quantity) -> Quantity | None:
    """Return the amount a policy allows for a request; None when it is too much."""
    if asked is None:
        return _amount(policy["default"]) if policy.get("default") is not None else whole
    if policy.get("validValues"):
        fitting = [value for value in map(_amount, policy["validValues"]) if not value < asked]
        return min(fitting, default=None)
    bounds = policy.get("validRange")
    if not bounds:
        return asked
    low = _amount(bounds.get("min", "0"))
    amount = low if asked < low else asked
    if bounds.get("step") is not None and not asked < low:
        step = _amount(bounds["step"])
        if step.value > 0:  # in whole numbers, fractions rounded up, written as the step is
            steps = -(-(asked.value - low.value) // step.value)
            amount = Quantity(low.value + steps * step.value, 0, step.format)
    if bounds.get("max") is not None and _amount(bounds["max"]) < amount:
        return None
    return amount


def fits(device: Device, taken: Amounts, before: Mapping[str, Quantity]) -> bool:
    """Return whether another share of *device* fits beside what was taken *before*."""
    for name, amount in taken.items():
        total = _amount((device.capacity or {})[name].get("value", "0"))
        if total < before.get(name, _ZERO) + amount:
            return False
    return True
