"""Validation of DeviceTaintRule, device taints and device tolerations.

Spec: dra.md 1.5 "DeviceTaint", 1.7 "DeviceToleration", 1.10 "DeviceTaintRule", 1.15 "Validation error texts"; D-03,
D-05, D-08, D-15. Unlike for pods, a bad value is reported on `value`; effects and operators are reported last, by the
declarative pass (weir.validate.resource.declared_devices).
"""

from __future__ import annotations

import json
from typing import Any, Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors, settle
from weir.fields.meta import validate_meta
from weir.validate.conditions import validate_conditions
from weir.validate.core.tolerations import EMPTY_KEY, validate_comparison, validate_expression
from weir.validate.ratchet import Options, options_for
from weir.validate.resource.declared_devices import MOST_TOLERATIONS, taint_effect, too_long_list
from weir.validate.resource.device_names import (
    MOST_SELECTORS,
    validate_device_name,
    validate_driver_name,
    validate_pool_name,
    validate_selectors,
)
from weir.values.names import byte_length, check_dns1123_subdomain, check_label_key, check_label_value
from weir.values.quoting import compact_json

DATA_MAX_BYTES: Final = 10 * 1024
DESCRIPTION_MAX_BYTES: Final = 1024
POSITIVE: Final = "must be greater than zero"
OMITTED: Final = "<value omitted>"


def validate_device_taint(taint: Document, at: str) -> Errors:
    """Yield what is wrong with a device taint, besides its effect."""
    key, value = taint.get("key") or "", taint.get("value") or ""
    yield from field.each_invalid(f"{at}.key", key, check_label_key(key))
    yield from field.each_invalid(f"{at}.value", value, check_label_value(value))
    yield from field.short_enough(f"{at}.description", taint.get("description") or "", DESCRIPTION_MAX_BYTES)
    if "data" in taint and taint["data"] is not None:
        yield from validate_json_object(taint["data"], f"{at}.data")
    rate = taint.get("evictionsPerSecond")
    yield from field.at_least(f"{at}.evictionsPerSecond", rate, 1, POSITIVE)


def validate_json_object(value: Any, at: str) -> Errors:
    """Yield what is wrong with free-form data: an object of limited size."""
    text = compact_json(value) if not isinstance(value, str | bytes) else json.dumps(str(value))
    if byte_length(text) > DATA_MAX_BYTES:
        yield field.too_long(at, DATA_MAX_BYTES)
    elif not isinstance(value, dict):
        yield field.invalid(at, OMITTED, "must be a valid JSON object")


def validate_device_tolerations(tolerations: list[Document], at: str, options: Options) -> Errors:
    """Yield what is wrong with the tolerations of one request, besides keys, operators and effects."""
    if len(tolerations) > MOST_TOLERATIONS:
        yield field.too_many(at, len(tolerations), MOST_TOLERATIONS)
        return
    for i, toleration in enumerate(tolerations):
        where = f"{at}[{i}]"
        if toleration.get("expression"):
            yield from validate_expression(toleration, where, options)
        else:
            yield from _validate_toleration(toleration, where, options)


def _validate_toleration(toleration: Document, at: str, options: Options) -> Errors:
    operator, value = toleration.get("operator") or "Equal", toleration.get("value") or ""
    if not toleration.get("key") and operator != "Exists":
        yield field.invalid(f"{at}.operator", Enum(operator), EMPTY_KEY)
    if operator == "Exists":
        if value:
            yield field.invalid(f"{at}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from field.each_invalid(f"{at}.value", value, check_label_value(value))
    else:
        problems = validate_comparison(operator, value, at, options)
        yield from (error for error in problems if not error.field.endswith(".operator"))


MOST_CONDITIONS: Final = 8


def validate_device_taint_rule(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a DeviceTaintRule."""
    if context.subresource == "status":
        yield from validate_meta(new, old, context)
        conditions = (new.get("status") or {}).get("conditions") or []
        yield from validate_conditions(conditions, "status.conditions")
        yield from field.at_most("status.conditions", conditions, MOST_CONDITIONS)
        return
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    kept = {(before.get("taint") or {}).get("effect") or ""}
    yield from settle(
        _handwritten(new, old, context),
        (
            *_declared_selectors(spec),
            *taint_effect(spec.get("taint") or {}, "spec.taint", kept),
        ),
    )


def _handwritten(new: Document, old: Document | None, context: Context) -> Errors:
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    yield from validate_meta(new, old, context)
    if (selector := spec.get("deviceSelector")) is not None:
        known = {} if old is None else before.get("deviceSelector") or {}
        unchanged = None if old is None else known.get("selectors")
        slashes = context.relaxed or (old is not None and selector.get("driver") == known.get("driver"))
        shares = options_for(context.gates).shares
        yield from _validate_selector(selector, "spec.deviceSelector", unchanged, slashes, shares)
    yield from validate_device_taint(spec.get("taint") or {}, "spec.taint")


def _declared_selectors(spec: Document) -> Errors:
    selectors = (spec.get("deviceSelector") or {}).get("selectors") or []
    yield from too_long_list(selectors, MOST_SELECTORS, "spec.deviceSelector.selectors")


def _validate_selector(
    selector: Document, at: str, old: list[Document] | None, slashes: bool, shares: bool
) -> Errors:
    if (driver := selector.get("driver")) is not None:
        yield from validate_driver_name(driver, f"{at}.driver", slashes=slashes)
    if (pool := selector.get("pool")) is not None:
        yield from validate_pool_name(pool, f"{at}.pool")
    if (device := selector.get("device")) is not None:
        yield from validate_device_name(device, f"{at}.device")
    yield from field.well_formed(
        f"{at}.deviceClassName", selector.get("deviceClassName"), check_dns1123_subdomain
    )
    yield from validate_selectors(selector.get("selectors") or [], f"{at}.selectors", old, shares=shares)
