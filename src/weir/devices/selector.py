"""Does this rule select this device? The only definition; everything that asks, asks here.

Spec: KEP-5055 "API", dra.md 3.4 "Rule matching", D-05, D-06. Tracker, eviction, dry run and commands share it.
What surprises: a rule without a selector selects nothing, an empty selector selects everything. A part that reads
attributes never selects a device whose attributes are not known (its slice is gone), while driver, pool and
device names go on matching it. An expression that fails for a device does not select it; an expression that no
longer compiles leaves it undecided.
Not here: which devices have to be asked at all (weir.devices.tracker), the language (weir.devices.expression).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weir.devices.expression import Device as SeenDevice
from weir.devices.expression import DeviceError, SelectorError, Selectors, read_device
from weir.objects.resource import Device, DeviceClass, DeviceID, DeviceSelector, DeviceTaintRule

_COMPILE: Final = "CEL compile error: "


class Outcome(enum.Enum):
    """How one rule met one device; each value is the phrase an explanation prints."""

    SELECTED = "selects it"
    NO_SELECTOR = "has no deviceSelector and so selects nothing"
    OTHER_DRIVER = "is for another driver"
    OTHER_POOL = "is for another pool"
    OTHER_DEVICE = "is for another device"
    UNKNOWN_ATTRIBUTES = "asks for attributes, and no current slice publishes the device"
    NO_SUCH_CLASS = "names a device class that does not exist"
    NOT_IN_CLASS = "is for another device class"
    SELECTOR_FALSE = "has a selector that is false for it"
    FAILED = "has a selector that fails for it"
    BROKEN = "has a selector that does not compile"


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer; truthy only when the rule selects the device. *problem* says what failed, if something did."""

    outcome: Outcome
    problem: str = ""

    def __bool__(self) -> bool:
        return self.outcome is Outcome.SELECTED


_PLAIN: Final = {outcome: Selection(outcome) for outcome in Outcome}
_SELECTED: Final = _PLAIN[Outcome.SELECTED]


class Candidate:
    """A device that rules may select: its names and, as long as a slice publishes it, its attributes.

    Attributes are read when an expression asks for the first time: most devices are never asked.
    """

    __slots__ = ("_error", "_seen", "device", "id")

    def __init__(self, name: DeviceID, device: Device | None = None) -> None:
        self.id, self.device = name, device
        self._seen: SeenDevice | None = None
        self._error: DeviceError | None = None

    def seen(self) -> SeenDevice | None:
        """Return what expressions see, or None when no slice publishes the device; raises DeviceError."""
        if self._error is not None:
            raise self._error
        if self._seen is None and self.device is not None:
            try:
                self._seen = read_device(
                    self.id.driver,
                    {
                        "attributes": self.device.attributes,
                        "capacity": self.device.capacity,
                        "allowMultipleAllocations": self.device.allow_multiple_allocations,
                    },
                )
            except DeviceError as error:
                self._error = error
                raise
        return self._seen


def selects(
    rule: DeviceTaintRule,
    device: Candidate,
    classes: Mapping[str, DeviceClass],
    expressions: Selectors,
) -> Selection:
    """Return whether *rule* selects *device*, and if not, why.

    >>> from weir.objects.core import read
    >>> rule = read(DeviceTaintRule, {"spec": {"deviceSelector": {"pool": "node-1"}}})
    >>> [bool(selects(rule, Candidate(DeviceID("d", pool, "gpu-0")), {}, Selectors())) for pool in ("node-1", "x")]
    [True, False]
    """
    selector = rule.spec.device_selector
    if selector is None:
        return _PLAIN[Outcome.NO_SELECTOR]
    driver, pool, name = device.id
    if selector.driver is not None and selector.driver != driver:
        return _PLAIN[Outcome.OTHER_DRIVER]
    if selector.pool is not None and selector.pool != pool:
        return _PLAIN[Outcome.OTHER_POOL]
    if selector.device is not None and selector.device != name:
        return _PLAIN[Outcome.OTHER_DEVICE]
    if selector.device_class_name is None and not selector.selectors:
        return _SELECTED
    if device.device is None:
        return _PLAIN[Outcome.UNKNOWN_ATTRIBUTES]
    if selector.device_class_name is not None:
        found = classes.get(selector.device_class_name)
        if found is None:
            return _PLAIN[Outcome.NO_SUCH_CLASS]
        judged = _all_true(found.spec.selectors or (), device, expressions)
        if judged.outcome is Outcome.SELECTOR_FALSE:
            return _PLAIN[Outcome.NOT_IN_CLASS]
        if not judged:
            return Selection(judged.outcome, f"class {found.name}: {judged.problem}")
    return _all_true(selector.selectors or (), device, expressions)


def _all_true(selectors: Sequence[DeviceSelector], device: Candidate, expressions: Selectors) -> Selection:
    if not selectors:
        return _SELECTED
    try:
        seen = device.seen()
    except DeviceError as error:
        return Selection(Outcome.FAILED, f"device {device.id}: {error}")
    if seen is None:
        return _PLAIN[Outcome.UNKNOWN_ATTRIBUTES]
    for index, selector in enumerate(selectors):
        try:
            if not expressions.selects(selector.expression, seen):
                return _PLAIN[Outcome.SELECTOR_FALSE]
        except SelectorError as error:
            text = str(error)
            if text.startswith(_COMPILE):
                return Selection(Outcome.BROKEN, f"selector #{index}: {text}")
            return Selection(Outcome.FAILED, f"selector #{index}: {text.removeprefix('CEL ')}")
    return _SELECTED
