"""Validation of DeviceTaintRule.

Spec: dra.md 1.10 "DeviceTaintRule", 1.15; D-05 for the selector's class and expressions.
"""

from __future__ import annotations

from typing import Final

from weir.validate.conditions import validate_conditions
from weir.validate.field import Context, Document, Errors, each_invalid, settle, too_many
from weir.validate.meta import validate_meta
from weir.validate.ratchet import options_for
from weir.validate.resource.declared_devices import taint_effect, too_long_list
from weir.validate.resource.device_names import (
    MOST_SELECTORS,
    validate_device_name,
    validate_driver_name,
    validate_pool_name,
    validate_selectors,
)
from weir.validate.resource.device_taints import validate_device_taint
from weir.values.names import check_dns1123_subdomain

MOST_CONDITIONS: Final = 8


def validate_device_taint_rule(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a DeviceTaintRule."""
    if context.subresource == "status":
        yield from validate_meta(new, old, context)
        conditions = (new.get("status") or {}).get("conditions") or []
        yield from validate_conditions(conditions, "status.conditions")
        if len(conditions) > MOST_CONDITIONS:
            yield too_many("status.conditions", len(conditions), MOST_CONDITIONS)
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
    if (name := selector.get("deviceClassName")) is not None:
        yield from each_invalid(f"{at}.deviceClassName", name, check_dns1123_subdomain(name))
    yield from validate_selectors(selector.get("selectors") or [], f"{at}.selectors", old, shares=shares)
