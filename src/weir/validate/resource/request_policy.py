"""Validation of capacity request policies.

Spec: dra.md 1.4 "Capacity request policy": a default, and at most one of a list of values or a range with steps.
Amounts out of range are reported below `validRange`, the default's included.
"""

from __future__ import annotations

from typing import Any, Final

from weir.validate.core.resources import NOT_NEGATIVE, amount
from weir.validate.field import Document, Errors, duplicate, forbidden, invalid, required, too_many
from weir.values.quantity import Quantity, parse_quantity

MOST_VALUES: Final = 10
BOTH: Final = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
)


NOT_INT64: Final = "must not be larger than 9223372036854775807"
_LARGEST: Final = parse_quantity("9223372036854775807")


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
    amounts, asked = [amount(value) for value in values], amount(default)
    for i in range(1, len(amounts)):
        if amounts[i] < amounts[i - 1]:
            yield invalid(f"{at}[{i}]", str(amounts[i]), "values must be sorted in ascending order")
    looked_at = amounts if len(amounts) <= MOST_VALUES else []
    if not looked_at:
        yield too_many(at, len(values), MOST_VALUES)
    for i, each in enumerate(looked_at):
        if each > capacity:
            yield invalid(f"{at}[{i}]", str(each), f"option is larger than capacity value: {capacity}")
    whole = [each.value for each in looked_at]  # fractions are rounded up before they are compared
    for i, number in enumerate(whole):
        if number in whole[:i]:
            yield duplicate(f"{at}[{i}]", str(number))
    if asked not in looked_at:
        yield invalid(at, str(asked), "default value is not valid according to the requestPolicy")


def _validate_range(span: Document, default: Any, capacity: Quantity, at: str) -> Errors:
    low, high, step = (
        None if span.get(name) is None else amount(span[name]) for name in ("min", "max", "step")
    )
    asked = amount(default)
    if low is None:
        yield required(f"{at}.min", "required when validRange is defined")
        return
    if low > capacity:
        yield invalid(f"{at}.min", str(low), f"min is larger than capacity value: {capacity}")
    if asked < low:
        yield invalid(f"{at}.default", str(asked), f"default is less than min: {low}")
    if high is not None:
        yield from _validate_maximum(low, high, asked, capacity, at)
    if step is not None:
        yield from _validate_step(low, high, step, asked, capacity, at)


def _validate_maximum(low: Quantity, high: Quantity, asked: Quantity, capacity: Quantity, at: str) -> Errors:
    if low > high:
        yield invalid(f"{at}.max", str(low), f"min is larger than max: {high}")
    if high > capacity:
        yield invalid(f"{at}.max", str(high), f"max is larger than capacity value: {capacity}")
    if asked > high:
        yield invalid(f"{at}.default", str(asked), f"default is more than max: {high}")


def _validate_step(
    low: Quantity, high: Quantity | None, step: Quantity, asked: Quantity, capacity: Quantity, at: str
) -> Errors:
    if step.sign <= 0:
        yield invalid(f"{at}.step", str(step), "must be greater than zero")
        return
    if low + step > capacity:
        yield invalid(
            f"{at}.step", str(step), f"one step {low + step} is larger than capacity value: {capacity}"
        )
    named = [("default", asked), ("min", low), ("max", high), ("step", step)]
    unsafe = [(name, each) for name, each in named if each is not None and _is_unsafe(each)]
    for name, each in unsafe:
        yield invalid(f"{at}.{name}", str(each), NOT_NEGATIVE if each.sign < 0 else NOT_INT64)
    for bound in () if unsafe else (asked, high):
        if bound is not None and (bound.value - low.value) % step.value:  # in whole numbers, rounded up
            detail = f"value is not a multiple of a given step ({step}) from ({low})"
            yield invalid(f"{at}.step", str(bound), detail)


def _is_unsafe(each: Quantity) -> bool:
    """Return whether steps cannot be counted with *each*: it is negative, or over what 64 bits hold."""
    return each.sign < 0 or each > _LARGEST
