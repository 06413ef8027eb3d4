"""Validation of ResourceClaim, ResourceClaimTemplate and DeviceClass.

Spec: dra.md 1.6 "ResourceClaim spec", 1.8 "ResourceClaim status", 1.9, 1.15; D-08, D-15. A claim's spec is immutable;
a template's is validated again before the change is rejected. Limits, duplicates, operators and effects are in
weir.validate.resource.declared_devices.
"""

from __future__ import annotations

from typing import Final

from weir.fields import field
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import IMMUTABLE, same, validate_meta, validate_template_meta
from weir.validate.ratchet import Options, options_for
from weir.validate.resource.claim_status import (
    Names,
    over_limit,
    request_names,
    validate_claim_status,
    validate_configs,
    validate_references,
)
from weir.validate.resource.declared_devices import (
    MODES,
    MOST,
    MOST_SUBREQUESTS,
    declared_claim,
    declared_class,
)
from weir.validate.resource.device_names import validate_device_name, validate_selectors
from weir.validate.resource.device_taint_rule import POSITIVE, validate_device_tolerations
from weir.values.names import check_dns1123_subdomain

ONE_FORM: Final = "exactly one of `exactly` or `firstAvailable` is required"
ONE_ATTRIBUTE: Final = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)


def validate_resource_claim(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ResourceClaim."""
    options = options_for(context.gates, context.raw)
    if old is None:
        devices = (new.get("spec") or {}).get("devices") or {}
        yield from field.settle(
            (*validate_meta(new, old, context), *validate_claim(devices, "spec.devices", options)),
            declared_claim(devices, "spec.devices", options),
        )
        return
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        yield from validate_claim_status(new, old, options, slashes=context.relaxed)
    elif not same(new.get("spec"), old.get("spec")):
        yield field.invalid("spec", None, IMMUTABLE)


def validate_resource_claim_template(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ResourceClaimTemplate; its spec never changes."""
    spec, options = new.get("spec") or {}, options_for(context.gates, context.raw)
    devices, at = (spec.get("spec") or {}).get("devices") or {}, "spec.spec.devices"
    changed = old is not None and not same(spec, old.get("spec"))
    yield from field.settle(
        (
            *validate_meta(new, old, context),
            *validate_template_meta(spec.get("metadata") or {}, "spec.metadata"),
            *validate_claim(devices, at, options),
            *([field.invalid("spec", spec, IMMUTABLE)] if changed else ()),
        ),
        declared_claim(devices, at, options) if old is None or changed else (),
    )


def validate_device_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a DeviceClass."""
    yield from field.settle(_validate_class(new, old, context), declared_class(new, old))


def _validate_class(new: Document, old: Document | None, context: Context) -> Errors:
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    for error in validate_meta(new, old, context):
        named = error.field == "metadata.name" and error.type == field.INVALID and old is None
        yield from field.covered([error]) if named else [error]
    known = None if old is None else before.get("selectors") or []
    shares = options_for(context.gates).shares
    yield from validate_selectors(spec.get("selectors") or [], "spec.selectors", known, shares=shares)
    stored = old is not None and same(spec.get("config"), before.get("config"))
    yield from validate_configs(spec.get("config") or [], None, "spec.config", stored=stored)


# ── the spec of a claim ──────────────────────────────────────────────────────────────────────────


def validate_claim(devices: Document, at: str, options: Options) -> Errors:
    """Yield errors in the device requests of a claim."""
    requests, constraints = devices.get("requests") or [], devices.get("constraints") or []
    if not (over := list(over_limit(requests, MOST, f"{at}.requests"))):
        yield from field.each(_validate_request, requests, f"{at}.requests", options)
    yield from over
    names = request_names(devices)
    if not (over := list(over_limit(constraints, MOST, f"{at}.constraints"))):
        for i, constraint in enumerate(constraints):
            yield from _validate_constraint(constraint, names, f"{at}.constraints[{i}]", options)
    yield from over
    yield from validate_configs(devices.get("config") or [], names, f"{at}.config")


def _validate_request(request: Document, at: str, options: Options) -> Errors:
    yield from validate_device_name(request.get("name") or "", f"{at}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and alternatives:
        yield field.invalid(at, None, ONE_FORM + ", but multiple fields are set")
    elif exactly is not None:
        class_name, where = exactly.get("deviceClassName"), f"{at}.exactly.deviceClassName"
        yield from field.required_well_formed(where, class_name, check_dns1123_subdomain)
        yield from _validate_device_request(exactly, f"{at}.exactly", options)
    elif alternatives:
        at = f"{at}.firstAvailable"
        if over := list(over_limit(alternatives, MOST_SUBREQUESTS, at)):
            yield from over
            return
        for i, alternative in enumerate(alternatives):
            yield from validate_device_name(alternative.get("name") or "", f"{at}[{i}].name")
            yield from _validate_device_request(alternative, f"{at}[{i}]", options)
    else:
        yield field.required(at, ONE_FORM)


def _validate_device_request(request: Document, at: str, options: Options) -> Errors:
    """Yield what is wrong with what `exactly` and the alternatives share."""
    yield from validate_selectors(request.get("selectors") or [], f"{at}.selectors", shares=options.shares)
    # The server filled these in, save where v1beta1 names no class; in a file they may be absent.
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if options.raw:
        mode, count = mode or "ExactCount", count or (1 if mode in ("", "ExactCount") else 0)
    if mode == "All":
        if count:
            yield field.invalid(f"{at}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if count <= 0:
            yield field.invalid(f"{at}.count", count, POSITIVE)
    else:
        yield from field.covered([field.not_supported(f"{at}.allocationMode", Enum(mode), MODES)])
    yield from validate_device_tolerations(request.get("tolerations") or [], f"{at}.tolerations", options)


def _validate_constraint(constraint: Document, names: Names, at: str, options: Options) -> Errors:
    yield from validate_references(constraint.get("requests") or [], names, f"{at}.requests")
    if constraint.get("matchAttribute") is None and constraint.get("distinctAttribute") is None:
        yield field.required(at, ONE_ATTRIBUTE) if options.shares else field.required(f"{at}.matchAttribute")
