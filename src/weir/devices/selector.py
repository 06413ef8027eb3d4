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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weir.cel.lowering import ProgramError
from weir.cel.source import CompileError
from weir.cel.values import CelError
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
#: The one answer that says yes.
SELECTED: Final = _PLAIN[Outcome.SELECTED]


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
    return asking(rule, classes, expressions)(device)


def asking(
    rule: DeviceTaintRule, classes: Mapping[str, DeviceClass], expressions: Selectors
) -> Callable[[Candidate], Selection]:
    """Return `selects` for one rule and the classes there are now, to be asked about many devices."""
    selector = rule.spec.device_selector
    if selector is None:
        return lambda device: _PLAIN[Outcome.NO_SELECTOR]
    driver, pool, name, class_name = (
        selector.driver,
        selector.pool,
        selector.device,
        selector.device_class_name,
    )
    own = selector.selectors or ()
    found = classes.get(class_name) if class_name is not None else None
    of_class = (found.spec.selectors or ()) if found else ()
    all_true = _Asked((*of_class, *own), expressions)

    def ask(device: Candidate) -> Selection:
        names = device.id
        if driver is not None and driver != names.driver:
            return _PLAIN[Outcome.OTHER_DRIVER]
        if pool is not None and pool != names.pool:
            return _PLAIN[Outcome.OTHER_POOL]
        if name is not None and name != names.device:
            return _PLAIN[Outcome.OTHER_DEVICE]
        if class_name is None and not own:
            return SELECTED
        if device.device is None:
            return _PLAIN[Outcome.UNKNOWN_ATTRIBUTES]
        if class_name is not None and found is None:
            return _PLAIN[Outcome.NO_SUCH_CLASS]
        if all_true(device):
            return SELECTED
        if found is not None:  # which of them is not true, and why
            judged = _all_true(of_class, device, expressions)
            if judged.outcome is Outcome.SELECTOR_FALSE:
                return _PLAIN[Outcome.NOT_IN_CLASS]
            if not judged:
                return Selection(judged.outcome, f"class {found.name}: {judged.problem}")
        elif all_true.only_false:
            return _PLAIN[Outcome.SELECTOR_FALSE]
        return _all_true(own, device, expressions)

    return ask


class _Asked:
    """Several selectors at once, without words: whether all are plainly true; `only_false` if one plainly is not.

    Compiles when first called. Whatever is not plain (an error, another type) is left for `_all_true` to say.
    """

    __slots__ = ("_evaluate", "_expressions", "_selectors", "only_false")

    def __init__(self, selectors: Sequence[DeviceSelector], expressions: Selectors) -> None:
        self._selectors, self._expressions = selectors, expressions
        self._evaluate: list[Callable[[dict[str, Any]], object]] = []
        self.only_false = False

    def __call__(self, device: Candidate) -> bool:
        self.only_false = False
        try:
            variables = {"device": device._seen or device.seen()}
            for evaluate in self._evaluate or self._compile():
                value = evaluate(variables)
                if value is not True:
                    self.only_false = value is False
                    return False
        except (CelError, CompileError, ProgramError, DeviceError):
            return False
        return True

    def _compile(self) -> list[Callable[[dict[str, Any]], object]]:
        compile_one, env = self._expressions.programs.compile, self._expressions.env
        self._evaluate = [compile_one(one.expression, env).evaluate for one in self._selectors]
        return self._evaluate


def _all_true(selectors: Sequence[DeviceSelector], device: Candidate, expressions: Selectors) -> Selection:
    if not selectors:
        return SELECTED
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
    return SELECTED
