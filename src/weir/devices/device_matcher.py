"""Whether a request may use a device: class, selectors, disabled features, taints.

Spec: KEP-4381 "Scheduling", dra.md 4.6 "Allocator". Selector results are cached until the slice changes. A selector
that fails at evaluation ends the attempt with an error instead of skipping the device.

Device tolerations against device taints. Spec: KEP-5055 "Semantics", dra.md 2 "Toleration matching", D-15. A device
toleration matches exactly as a pod's (weir.taints.toleration): same operators, gates and expressions. Every taint needs
its own toleration, also next to another of the same key; an effect this version does not know, like `None`, rejects
nothing; tolerationSeconds is ignored here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from weir.devices.expression import DeviceError, SelectorError, Selectors
from weir.devices.origin import TrackedTaint
from weir.devices.outcome import AllocationError, Refusal, RequestWithClass
from weir.devices.published import TrackedDevice
from weir.gates import Gates
from weir.objects.resource import Device, DeviceClass, DeviceSelector, DeviceSubRequest, DeviceToleration
from weir.taints.toleration import BLOCKING, Evaluate, find_tolerating

MOST_SELECTORS: Final = 1_000  #: lists of selectors whose answers are kept


def untolerated(
    taints: Iterable[TrackedTaint],
    tolerations: Sequence[DeviceToleration],
    gates: Gates,
    evaluate: Evaluate | None = None,
) -> list[TrackedTaint]:
    """Return the taints that keep a request away from a device, in their own order, each with its origin.

    >>> from weir.devices.origin import RuleOrigin
    >>> from weir.objects.resource import DeviceTaint
    >>> hot = TrackedTaint(DeviceTaint("hot", "", "NoSchedule"), RuleOrigin("cool-down"), 1)
    >>> [str(taint.origin) for taint in untolerated([hot], [], Gates())]
    ['DeviceTaintRule cool-down']
    >>> untolerated([hot], [DeviceToleration("hot", "Exists")], Gates())
    []
    """
    return [
        taint
        for taint in taints
        if taint.plain.effect in BLOCKING
        and find_tolerating(tolerations, taint.plain, gates, evaluate) is None
    ]


class DeviceMatcher:
    """Matches requests with devices; call `forget` for devices whose slices changed."""

    def __init__(
        self,
        classes: Mapping[str, DeviceClass],
        expressions: Selectors,
        gates: Gates,
        evaluate: Evaluate | None = None,
    ) -> None:
        self._classes, self._gates, self._evaluate = classes, gates, evaluate
        self._expressions = expressions
        self._partitions = gates.enabled("DRAPartitionableDevices")
        self._shares = gates.enabled("DRAConsumableCapacity")
        self._waiting = gates.enabled("DRADeviceBindingConditions") and gates.enabled(
            "DRAResourceClaimDeviceStatus"
        )
        self._admin = gates.enabled("DRAAdminAccess")
        self._verdicts: dict[tuple[DeviceSelector, ...], dict[TrackedDevice, bool]] = {}

    def forget(self, devices: Collection[TrackedDevice]) -> None:
        """Ask the selectors about *devices* anew."""
        for verdicts in self._verdicts.values():
            for device in devices:
                verdicts.pop(device, None)

    def find_class(self, name: str) -> DeviceClass | None:
        return self._classes.get(name)

    def check_features(self, claim: str, name: str, asked: DeviceSubRequest) -> None:
        """Refuse a request that a newer or differently configured server let through; raises AllocationError."""
        if asked.admin_access and not self._admin:
            raise AllocationError(
                f"claim {claim}, request {name}: admin access is requested, but the feature is disabled"
            )
        if asked.capacity and asked.capacity.requests and not self._shares:
            raise AllocationError(
                f"claim {claim}, request {name}: has capacity requests, but the DRAConsumableCapacity feature is "
                "disabled"
            )

    def feature_off(self, device: Device) -> bool:
        """Return whether the device can only be used with a feature that is off."""
        return bool(
            (device.consumes_counters and not self._partitions)
            or (device.allow_multiple_allocations and not self._shares)
            or (device.binding_conditions and not self._waiting)
        )

    def selected(self, ask: RequestWithClass, device: TrackedDevice) -> Refusal | None:
        """Return which selector is false for the device, None when all are true; raises AllocationError."""
        if not self._all(ask.device_class.spec.selectors, device, ask, of_class=True):
            return Refusal.NOT_IN_CLASS
        if not self._all(ask.asked.selectors, device, ask, of_class=False):
            return Refusal.SELECTOR_FALSE
        return None

    def _all(
        self,
        selectors: tuple[DeviceSelector, ...] | None,
        device: TrackedDevice,
        ask: RequestWithClass,
        *,
        of_class: bool,
    ) -> bool:
        """Return whether all *selectors* are true, evaluated once per device and list."""
        if not selectors:
            return True
        verdicts = self._verdicts.get(selectors)
        if verdicts is None:
            if len(self._verdicts) >= MOST_SELECTORS:
                self._verdicts.clear()
            verdicts = self._verdicts[selectors] = {}
        known = verdicts.get(device)
        if known is None:
            owner = f"class {ask.device_class.name}" if of_class else f"claim {ask.claim}"
            known = verdicts[device] = all(
                self._one(index, selector, device, owner) for index, selector in enumerate(selectors)
            )
        return known

    def _one(self, index: int, selector: DeviceSelector, device: TrackedDevice, owner: str) -> bool:
        try:
            seen = device.seen()
            return seen is not None and self._expressions.selects(selector.expression, seen)
        except DeviceError as error:
            raise AllocationError(f"{owner}: selector #{index} on device {device.id}: {error}") from None
        except SelectorError as error:
            text = str(error)
            where = "" if text.startswith("CEL compile error") else f" on device {device.id}"
            raise AllocationError(f"{owner}: selector #{index}{where}: {text}") from None

    def untolerated(self, ask: RequestWithClass, device: TrackedDevice) -> list[TrackedTaint]:
        """Return the taints that keep the request from the device."""
        taints = device.taints
        if not taints:
            return []
        return untolerated(taints, ask.asked.tolerations or (), self._gates, self._evaluate)
