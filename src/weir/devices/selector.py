"""DeviceTaintRule selectors: whether a rule selects a device.

Spec: KEP-5055 "API", dra.md 3.4 "Rule matching", D-05, D-06. Tracker, eviction, dry run and commands all use this
function. A rule without a selector selects nothing, an empty selector selects everything. A part that reads
attributes never selects a device whose slice is gone, while driver, pool and device names still match it. An
expression that fails for a device does not select it; one that no longer compiles leaves the result undecided.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from weir.cel.errors import CelError, CompileError
from weir.cel.lowering import ProgramError
from weir.devices.expression import Device as SeenDevice
from weir.devices.expression import DeviceError, SelectorError, Selectors, read_device
from weir.devices.selector_fields import EqualityKey, TextTest, equality_key, find_reads, find_text_test
from weir.objects.resource import Device, DeviceClass, DeviceID, DeviceSelector, DeviceTaintRule

_COMPILE: Final = "CEL compile error: "
#: Cached results per rule; more distinct devices than this are evaluated each.
_MOST_ANSWERS: Final = 512


class RuleOutcome(enum.Enum):
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

    outcome: RuleOutcome
    problem: str = ""

    def __bool__(self) -> bool:
        return self.outcome is RuleOutcome.SELECTED


(
    NO_SELECTOR,
    OTHER_DRIVER,
    OTHER_POOL,
    OTHER_DEVICE,
    UNKNOWN_ATTRIBUTES,
    NO_SUCH_CLASS,
    NOT_IN_CLASS,
    SELECTOR_FALSE,
) = (
    Selection(outcome)
    for outcome in (
        RuleOutcome.NO_SELECTOR,
        RuleOutcome.OTHER_DRIVER,
        RuleOutcome.OTHER_POOL,
        RuleOutcome.OTHER_DEVICE,
        RuleOutcome.UNKNOWN_ATTRIBUTES,
        RuleOutcome.NO_SUCH_CLASS,
        RuleOutcome.NOT_IN_CLASS,
        RuleOutcome.SELECTOR_FALSE,
    )
)
#: The one answer that says yes.
SELECTED: Final = Selection(RuleOutcome.SELECTED)


class Candidate:
    """A device that rules may select: its names and, while a slice publishes it, its attributes.

    Attributes are parsed on first use by an expression: most devices never need it.
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


C = TypeVar("C", bound=Candidate)


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
    return Question(rule, classes, expressions)(device)


class Question:
    """`selects` for one rule and the current classes, evaluated for many devices.

    Devices equal in every field the rule's expressions read share one evaluation; where hardly two are equal, nothing
    is cached.
    """

    __slots__ = (
        "_all_true",
        "_class",
        "_class_name",
        "_expressions",
        "_of_class",
        "_own",
        "_selector",
        "_worded",
    )

    def __init__(
        self, rule: DeviceTaintRule, classes: Mapping[str, DeviceClass], expressions: Selectors
    ) -> None:
        selector = rule.spec.device_selector
        self._selector, self._expressions = selector, expressions
        self._class_name = selector.device_class_name if selector is not None else None
        self._own = (selector.selectors or ()) if selector is not None else ()
        self._class = classes.get(self._class_name) if self._class_name is not None else None
        self._of_class = (self._class.spec.selectors or ()) if self._class else ()
        self._all_true = _Expressions((*self._of_class, *self._own), expressions)
        self._worded: dict[Hashable, Selection] = {}  # what was said about devices like these

    def __call__(self, device: Candidate) -> Selection:
        """Return whether the rule selects *device*, and if not, why."""
        selector, names = self._selector, device.id
        if selector is None:
            return NO_SELECTOR
        if selector.driver is not None and selector.driver != names.driver:
            return OTHER_DRIVER
        if selector.pool is not None and selector.pool != names.pool:
            return OTHER_POOL
        if selector.device is not None and selector.device != names.device:
            return OTHER_DEVICE
        if self._class_name is None and not self._own:
            return SELECTED
        if device.device is None:
            return UNKNOWN_ATTRIBUTES
        if self._class_name is not None and self._class is None:
            return NO_SUCH_CLASS
        if (known := self._all_true(device)) is True:
            return SELECTED
        if known is False and self._class is None:
            return SELECTOR_FALSE
        key = self._all_true.key(device)
        worded = self._worded.get(key) if key is not None else None
        if worded is None:
            worded = self._word(device)
            if key is not None and len(self._worded) < _MOST_ANSWERS:
                self._worded[key] = worded
        return worded

    def _word(self, device: Candidate) -> Selection:
        """Return which of the expressions is not plainly true, and why."""
        if self._class is not None:
            judged = _all_true(self._of_class, device, self._expressions)
            if judged is SELECTOR_FALSE:
                return NOT_IN_CLASS
            if not judged:
                return Selection(judged.outcome, f"class {self._class.name}: {judged.problem}")
        return _all_true(self._own, device, self._expressions)

    def among(
        self, devices: Iterable[C], selected: dict[C, None], failed: Callable[[Selection], None]
    ) -> None:
        """Add to *selected* those of *devices* that the rule selects; what went wrong goes to *failed*."""
        find, ask, unnamed = self._all_true.find, self._all_true.ask, self._unnamed()
        for device in devices:
            known = find(device) if unnamed else None
            if known is None and unnamed and device.device is not None:
                known = ask(device)
            if known is True:
                selected[device] = None
            elif known is None:
                answer = self(device)
                if answer is SELECTED:
                    selected[device] = None
                elif answer.problem:
                    failed(answer)

    def _unnamed(self) -> bool:
        """Return whether expressions alone decide."""
        selector = self._selector
        if selector is None or (self._class is None and (self._class_name is not None or not self._own)):
            return False
        return selector.driver is None and selector.pool is None and selector.device is None


class _Expressions:
    """Several selectors at once, without words: True, False, or None for what has to be looked at more closely.

    Compiles when first called. Whatever is not plain (an error, another type) is left for `_all_true` to say.
    """

    __slots__ = ("_alike", "_evaluate", "_expressions", "_known", "_selectors", "_test")

    def __init__(self, selectors: Sequence[DeviceSelector], expressions: Selectors) -> None:
        self._selectors, self._expressions = selectors, expressions
        self._evaluate: list[Callable[[dict[str, Any]], object]] = []
        self._alike: EqualityKey | None = None
        self._test: TextTest | None = None  # of devices that have a text where the only selector looks
        self._known: dict[Hashable, bool] = {}

    def find(self, device: Candidate) -> bool | None:
        """Return the cached result of a device equal in the fields read, if any."""
        alike, written = self._alike, device.device
        if alike is None or written is None or device._seen is None:
            return None
        key = alike(device.id, written)
        if self._test is not None and key.__class__ is str:
            return self._test(key)
        return self._known.get(key)

    def key(self, device: Candidate) -> Hashable | None:
        """Return the cache key of a device; None if it must be evaluated itself."""
        if self._alike is None or device.device is None or device._seen is None:
            return None
        return self._alike(device.id, device.device)

    def __call__(self, device: Candidate) -> bool | None:
        known = self.find(device)
        return self.ask(device) if known is None else known

    def ask(self, device: Candidate) -> bool | None:
        """Return the answer of the device itself."""
        try:
            variables = {"device": device._seen or device.seen()}
            for evaluate in self._evaluate or self._compile():
                value = evaluate(variables)
                if value is not True:
                    return self._remember(device, False) if value is False else None
        except (CelError, CompileError, ProgramError, DeviceError):
            return None
        return self._remember(device, True)

    def _remember(self, device: Candidate, answer: bool) -> bool:
        if self._alike is None or device.device is None:
            return answer
        if len(self._known) >= _MOST_ANSWERS:
            self._alike, self._known = None, {}  # uuids or the like: no two are alike
        elif (key := self._alike(device.id, device.device)) is not None:
            self._known[key] = answer
        return answer

    def _compile(self) -> list[Callable[[dict[str, Any]], object]]:
        texts, expressions = [one.expression for one in self._selectors], self._expressions
        self._evaluate = [expressions.programs.compile(text, expressions.env).evaluate for text in texts]
        reads = find_reads(texts, expressions.env)
        self._alike = equality_key(reads) if reads else None
        self._test = find_text_test(texts, expressions.env) if reads else None
        return self._evaluate


def _all_true(selectors: Sequence[DeviceSelector], device: Candidate, expressions: Selectors) -> Selection:
    if not selectors:
        return SELECTED
    try:
        seen = device.seen()
    except DeviceError as error:
        return Selection(RuleOutcome.FAILED, f"device {device.id}: {error}")
    if seen is None:
        return UNKNOWN_ATTRIBUTES
    for index, selector in enumerate(selectors):
        try:
            if not expressions.selects(selector.expression, seen):
                return SELECTOR_FALSE
        except SelectorError as error:
            text = str(error)
            if text.startswith(_COMPILE):
                return Selection(RuleOutcome.BROKEN, f"selector #{index}: {text}")
            return Selection(RuleOutcome.FAILED, f"selector #{index}: {text.removeprefix('CEL ')}")
    return SELECTED
