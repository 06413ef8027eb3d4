"""Constraints between the devices of a claim: matchAttribute and distinctAttribute.

Spec: KEP-4381 "Constraints", KEP-5004, dra.md 4.6: `matchAttribute` requires one value on all devices,
`distinctAttribute` a different one on each; a device without the attribute fails both. An attribute is found by its
full name, or by its bare id when the domain is the device's own driver. `req` in a constraint covers all alternatives
of the request, `req/sub` only that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from weir.objects.resource import Device, DeviceConstraint

Value = tuple[str, object]
_KINDS = ("int", "bool", "string", "version")


def attribute_of(device: Device, driver: str, name: str) -> Value | None:
    """Return the type and value of an attribute, or None.

    >>> attribute_of(Device(attributes={"numa": {"int": 1}}), "gpu.example.com", "gpu.example.com/numa")
    ('int', 1)
    """
    attributes = device.attributes or {}
    found = attributes.get(name)
    if found is None:
        domain, _, bare = name.partition("/")
        found = attributes.get(bare) if domain == driver else None
    for kind in _KINDS if found else ():
        if found is not None and found.get(kind) is not None:
            return kind, found[kind]
    return None


class Constraint:
    """One constraint of a claim with the values of the devices chosen so far."""

    __slots__ = ("_distinct", "_name", "_requests", "_values")

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._distinct = constraint.match_attribute is None
        self._name = constraint.match_attribute or constraint.distinct_attribute or ""
        self._requests: Sequence[str] = constraint.requests or ()
        self._values: list[Value] = []

    def concerns(self, request: str) -> bool:
        """Return whether the constraint is about a request (`req` or `req/sub`)."""
        return not self._requests or request in self._requests or request.partition("/")[0] in self._requests

    def add(self, device: Device, driver: str) -> bool:
        """Take a device in; False, and nothing taken, when it does not go with the others."""
        value = attribute_of(device, driver, self._name)
        if value is None:
            return False
        if self._distinct:
            if value in self._values:
                return False
        elif self._values and self._values[0] != value:
            return False
        self._values.append(value)
        return True

    def remove(self) -> None:
        """Take the last device out again."""
        self._values.pop()
