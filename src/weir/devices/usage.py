"""What of the devices is in use, and what is left of shared counters and capacity?

Spec: KEP-4815 (counters), KEP-5075 (consumable capacity), dra.md 4.2 (devices in use), 4.8 "Counters and capacity".
A device belongs to one claim unless it may be allocated several times; then every share takes its part of the capacity.
What surprises: results with admin access use nothing. A capacity nobody asked for is taken by its policy's default, or
whole.
Not here: who gets which device (weir.devices.allocation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weir.devices.pool import Pool
from weir.objects.resource import Device, DeviceID, ResourceClaim
from weir.values.quantity import Quantity, QuantityError, parse_quantity

Amounts = dict[str, Quantity]
_ZERO = parse_quantity("0")


@dataclass(slots=True)
class InUse:
    """Devices that claims hold: whole, or shares of them by capacity."""

    devices: set[DeviceID] = field(default_factory=set)
    consumed: dict[DeviceID, Amounts] = field(default_factory=dict)

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
            for result in claim.results:
                if result.admin_access:
                    continue
                if result.share_id is None:
                    found.devices.add(result.id)
                    continue
                amounts = found.consumed.setdefault(result.id, {})
                for name, text in (result.consumed_capacity or {}).items():
                    amounts[name] = amounts.get(name, _ZERO) + _amount(text)
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


def capacity_needed(device: Device, driver: str, asked: Mapping[str, Any]) -> Amounts | None:
    """Return what a share of *device* takes of each of its capacities, or None when it cannot serve *asked*.

    For a device that is not shared the answer is empty: there a request only says what is enough.
    """
    capacity = device.capacity or {}
    wanted = {_find(capacity, driver, name): _amount(text) for name, text in asked.items()}
    if None in wanted:
        return None  # a capacity the device does not have
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


def _find(capacity: Mapping[str, Any], driver: str, name: str) -> str | None:
    """Return the key of a capacity: as written, or without the domain if that is the driver's."""
    if name in capacity:
        return name
    domain, slash, bare = name.partition("/")
    if slash:
        return bare if domain == driver and bare in capacity else None
    full = f"{driver}/{name}"
    return full if full in capacity else None


def _rounded(policy: Mapping[str, Any], asked: Quantity | None, whole: Quantity) -> Quantity | None:
    """Return the amount a policy allows for what was asked; None when it is too much."""
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
    if bounds.get("step") is not None and low < amount:
        step, above = _nano(_amount(bounds["step"])), _nano(amount) - _nano(low)
        if step > 0:
            amount = parse_quantity(f"{_nano(low) + -(-above // step) * step}n")
    if bounds.get("max") is not None and _amount(bounds["max"]) < amount:
        return None
    return amount


def _nano(amount: Quantity) -> int:
    return amount.scaled(-9)


def fits(device: DeviceID, whole: Device, taken: Amounts, consumed: Mapping[DeviceID, Amounts]) -> bool:
    """Return whether another share fits beside those already there."""
    before = consumed.get(device, {})
    for name, amount in taken.items():
        total = _amount((whole.capacity or {})[name].get("value", "0"))
        if total < before.get(name, _ZERO) + amount:
            return False
    return True
