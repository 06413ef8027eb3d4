"""How may a share of a device's capacity be asked for?

Spec: dra.md 1.4 "Capacity request policy": a default, and at most one of a list of values or a range with steps.
What surprises: amounts out of place are reported below `validRange`, the default's too.
Not here: what a request is given (weir.devices.allocation).
"""

from __future__ import annotations

from typing import Any, Final

from weir.validate.field import Document, Errors, duplicate, forbidden, invalid, required, too_many
from weir.validate.resources import NOT_NEGATIVE, amount
from weir.values.quantity import Quantity

MOST_VALUES: Final = 10
BOTH: Final = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
)


def validate_request_policy(policy: Document, capacity: Quantity, at: str) -> Errors:
    """Yield what is wrong with the policy of one capacity whose whole amount is *capacity*."""
    values, span, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and span is not None:
        yield forbidden(at, BOTH)
        return
    given = "validValues" if values else "validRange" if span is not None else ""
    if default is None and given:
        yield required(f"{at}.default", f"required when {given} is defined")
        return
    if values:
        yield from _validate_values(values, default, capacity, f"{at}.validValues")
    if span is not None:
        yield from _validate_range(span, default, capacity, f"{at}.validRange")


def _validate_values(values: list[Any], default: Any, capacity: Quantity, at: str) -> Errors:
    if len(values) > MOST_VALUES:
        yield too_many(at, len(values), MOST_VALUES)
    amounts = [amount(value) for value in values]
    for i, each in enumerate(amounts):
        if each in amounts[:i]:
            yield duplicate(f"{at}[{i}]", str(each.value))
        if i and each < amounts[i - 1]:
            yield invalid(f"{at}[{i}]", str(each), "values must be sorted in ascending order")
        if each > capacity:
            yield invalid(f"{at}[{i}]", str(each), f"option is larger than capacity value: {capacity}")
    if default is not None and amount(default) not in amounts:
        yield invalid(at, str(amount(default)), "default value is not valid according to the requestPolicy")


def _validate_range(span: Document, default: Any, capacity: Quantity, at: str) -> Errors:
    low, high, step = (
        None if span.get(name) is None else amount(span[name]) for name in ("min", "max", "step")
    )
    asked = None if default is None else amount(default)
    if low is None:
        yield required(f"{at}.min", "required when validRange is defined")
        return
    if low > capacity:
        yield invalid(f"{at}.min", str(low), f"min is larger than capacity value: {capacity}")
    if asked is not None and asked < low:
        yield invalid(f"{at}.default", str(asked), f"default is less than min: {low}")
    if high is not None:
        yield from _validate_maximum(low, high, asked, capacity, at)
    if step is not None:
        yield from _validate_step(low, high, step, asked, capacity, at)
    for name, each in (("default", asked), ("min", low), ("max", high)):
        if each is not None and each.sign < 0:
            yield invalid(f"{at}.{name}", str(each), NOT_NEGATIVE)


def _validate_maximum(
    low: Quantity, high: Quantity, asked: Quantity | None, capacity: Quantity, at: str
) -> Errors:
    if high > capacity:
        yield invalid(f"{at}.max", str(high), f"max is larger than capacity value: {capacity}")
    if low > high:
        yield invalid(f"{at}.max", str(low), f"min is larger than max: {high}")
    if asked is not None and asked > high:
        yield invalid(f"{at}.default", str(asked), f"default is more than max: {high}")


def _validate_step(
    low: Quantity, high: Quantity | None, step: Quantity, asked: Quantity | None, capacity: Quantity, at: str
) -> Errors:
    if step.sign <= 0:
        yield invalid(f"{at}.step", str(step), "must be greater than zero")
        return
    if low + step > capacity:
        yield invalid(
            f"{at}.step", str(step), f"one step {low + step} is larger than capacity value: {capacity}"
        )
    for each in (asked, high):
        if each is not None and low.sign >= 0 and each.sign >= 0 and not _is_on_step(each, low, step):
            detail = f"value is not a multiple of a given step ({step}) from ({low})"
            yield invalid(f"{at}.step", str(each), detail)


def _is_on_step(value: Quantity, low: Quantity, step: Quantity) -> bool:
    """Return whether *value* is reached from *low* in whole steps."""
    thousandths = (value - low).milli_value
    return step.milli_value != 0 and thousandths % step.milli_value == 0
