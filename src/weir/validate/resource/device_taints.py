"""Validation of device taints and device tolerations.

Spec: dra.md 1.5 "DeviceTaint", 1.7 "DeviceToleration", 1.15 "Validation error texts"; D-03, D-08, D-15. Unlike for
pods, a bad value is reported on `value`; effects and operators are reported last, by the declarative pass
(weir.validate.resource.declared_devices).
"""

from __future__ import annotations

import json
from typing import Any, Final

from weir.validate import field
from weir.validate.core.tolerations import EMPTY_KEY, validate_comparison, validate_expression
from weir.validate.field import Document, Enum, Errors
from weir.validate.ratchet import Options
from weir.validate.resource.declared_devices import MOST_TOLERATIONS
from weir.values.names import byte_length, check_label_key, check_label_value
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
    if byte_length(taint.get("description") or "") > DESCRIPTION_MAX_BYTES:
        yield field.too_long(f"{at}.description", DESCRIPTION_MAX_BYTES)
    if "data" in taint and taint["data"] is not None:
        yield from validate_json_object(taint["data"], f"{at}.data")
    rate = taint.get("evictionsPerSecond")
    if rate is not None and rate <= 0:
        yield field.invalid(f"{at}.evictionsPerSecond", rate, POSITIVE)


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
