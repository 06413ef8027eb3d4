"""Declarative validation of ResourceSlice, ResourceClaim, DeviceClass and DeviceTaintRule.

Spec: dra.md 1.15 "Order of errors", pass 2; D-15 for operators.
The second pass (weir.fields.field): limits, duplicates, enums and formats, in field order; unchanged
parts of an update are skipped. Some formats have other words here (`bytes` where the first pass says `characters`);
duplicates are reported before the entries are checked, and print whole in wire form.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from weir.fields import field
from weir.fields.field import Document, Errors, FieldError
from weir.fields.meta import same
from weir.objects.schema import struct
from weir.objects.strict_decoder import printed
from weir.validate.core.tolerations import validate_comparison
from weir.validate.ratchet import Options
from weir.validate.resource.device_names import (
    DRIVER_MAX_BYTES,
    MOST_SELECTORS,
    NOT_QUALIFIED,
    validate_driver_reference,
    validate_identifier,
)
from weir.values.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
    in_bytes,
)

MOST: Final = 32
MOST_SUBREQUESTS: Final = 8
MOST_TOLERATIONS: Final = 16
MOST_BINDING_CONDITIONS: Final = 4
MOST_COUNTER_SETS: Final = 8
MOST_CONSUMED_SETS: Final = 2
MODES: Final = ("All", "ExactCount")
EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
VALUES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_ONE_VALUE: Final = ", ".join(f"`{name}`" for name in VALUES)


# ── formats, in the words of this pass ───────────────────────────────────────────────────────────


def short_name(name: str, at: str) -> Errors:
    """Yield what is wrong with a DNS label that must be there."""
    if not name:
        yield field.required(at)
    else:
        yield from field.each_invalid(at, name, in_bytes(check_dns1123_label(name)))


def long_name(name: str, at: str) -> Errors:
    """Yield what is wrong with a DNS subdomain that must be there."""
    if not name:
        yield field.required(at)
    else:
        yield from field.each_invalid(at, name, in_bytes(check_dns1123_subdomain(name)))


def fully_qualified_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name of an attribute that must say its domain."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        yield from validate_identifier(name, at)
        yield field.invalid(at, name, NOT_QUALIFIED)
        return
    if "/" in identifier:
        return  # slips through upstream
    if not domain:
        yield field.invalid(at, "", "prefix must not be empty")
    else:
        yield from field.short_enough(at, domain, DRIVER_MAX_BYTES)
        messages = in_bytes(check_dns1123_subdomain(domain))
        yield from field.each_invalid(at, domain, ("prefix: " + message for message in messages))
    if identifier:
        yield from validate_identifier(identifier, at)
    else:
        yield field.invalid(at, "", "name must not be empty")


def extended_resource_name(name: str, at: str) -> Errors:
    """Yield what is wrong with the name under which pods may ask for a class as for a resource."""
    if "/" not in name:
        yield field.invalid(at, name, "a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        yield field.invalid(at, name, 'must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        yield field.invalid(at, name, 'must not have "requests." prefix')
    yield from field.each_invalid(at, name, check_label_key("requests." + name))


# ── lists ────────────────────────────────────────────────────────────────────────────────────────


def too_long_list(entries: list[Any], most: int, at: str) -> list[FieldError]:
    """Return the one error of a list over its limit; nothing else of such a list is reported."""
    return [field.too_many(at, len(entries), most)] if len(entries) > most else []


def repeated(entries: list[Any], keys: Collection[str], at: str, of: str = "") -> Errors:
    """Yield every entry whose *keys* an earlier one has; entries of the struct *of* print in its wire form."""
    seen: set[Any] = set()
    for i, entry in enumerate(entries):
        key = tuple(entry.get(name) or "" for name in keys) if keys else entry
        yield from field.unique(
            key, seen, f"{at}[{i}]", printed(_defaulted(entry), struct(of)) if of else entry
        )


def _defaulted(entry: Document) -> Document:
    """Return a request as the server fills it in before it prints it; other entries have nothing to fill in."""
    filled = dict(entry)
    if entry.get("exactly") is not None:
        filled["exactly"] = _with_count(entry["exactly"])
    if entry.get("firstAvailable"):
        filled["firstAvailable"] = [_with_count(alternative) for alternative in entry["firstAvailable"]]
    return _with_count(filled) if "deviceClassName" in entry else filled


def _with_count(request: Document) -> Document:
    mode = request.get("allocationMode") or "ExactCount"
    counted = {"count": request.get("count") or 1} if mode == "ExactCount" else {}
    return {**request, "allocationMode": mode, **counted}


def declared_references(listed: list[str], at: str) -> Errors:
    """Yield what is wrong with a list of references to requests: too many, or one twice."""
    yield from too_long_list(listed, MOST, at) or repeated(listed, (), at)


# ── slices ───────────────────────────────────────────────────────────────────────────────────────


def declared_slice(spec: Document, old: Document | None, kept_effects: Collection[str]) -> Errors:
    """Yield what the declared rules say about the spec of a slice."""
    before = old or {}
    devices = spec.get("devices") or []
    if old is None or not same(devices, before.get("devices") or []):
        yield from field.each(_device, devices, "spec.devices", kept_effects)
    for i, entry in enumerate(spec.get("taints") or ()):
        yield from taint_effect(entry.get("taint") or {}, f"spec.taints[{i}].taint", kept_effects)
    sets, at = spec.get("sharedCounters") or [], "spec.sharedCounters"
    if old is not None and same(sets, before.get("sharedCounters") or []):
        return
    if over := too_long_list(sets, MOST_COUNTER_SETS, at):
        yield from over
        return
    yield from repeated(sets, ("name",), at, "resource.v1.CounterSet")
    for i, counters in enumerate(sets):
        if old is None or counters not in (before.get("sharedCounters") or ()):
            yield from short_name(counters.get("name") or "", f"{at}[{i}].name")
            yield from _counters(counters.get("counters") or {}, f"{at}[{i}].counters")


def _counters(counters: Document, at: str) -> Errors:
    yield from field.present(at, counters)
    for name in sorted(counters):
        yield from field.each_invalid(at, name, in_bytes(check_dns1123_label(name)))


def _device(device: Document, at: str, kept_effects: Collection[str]) -> Errors:
    attributes = device.get("attributes") or {}
    for name in sorted(attributes):
        yield from _one_value(attributes[name], f"{at}.attributes[{name}]")
    consumed, where = device.get("consumesCounters") or [], f"{at}.consumesCounters"
    if over := too_long_list(consumed, MOST_CONSUMED_SETS, where):
        yield from over
    else:
        yield from repeated(consumed, ("counterSet",), where, "resource.v1.DeviceCounterConsumption")
        for i, entry in enumerate(consumed):
            yield from short_name(entry.get("counterSet") or "", f"{where}[{i}].counterSet")
            yield from _counters(entry.get("counters") or {}, f"{where}[{i}].counters")
    yield from field.each(taint_effect, device.get("taints"), f"{at}.taints", kept_effects)
    yield from binding_conditions(device, at)


def _one_value(attribute: Document, at: str) -> Errors:
    given = [
        name
        for name in VALUES
        if attribute.get(name) or (name in VALUES[:4] and attribute.get(name) is not None)
    ]
    if not given:
        yield field.invalid(at, "", f"must specify one of: {_ONE_VALUE}")
    elif len(given) > 1:
        yield field.invalid(at, "{" + ", ".join(given) + "}", f"must specify exactly one of: {_ONE_VALUE}")


def binding_conditions(holder: Document, at: str) -> Errors:
    """Yield that a device or a result has too many binding conditions."""
    for name in ("bindingConditions", "bindingFailureConditions"):
        yield from too_long_list(holder.get(name) or [], MOST_BINDING_CONDITIONS, f"{at}.{name}")


def taint_effect(taint: Document, at: str, kept: Collection[str]) -> Errors:
    """Yield what is wrong with the effect of a taint; *kept* are unknown ones the stored object already has."""
    effect = taint.get("effect") or ""
    if not effect:
        yield field.required(f"{at}.effect")
    elif effect not in EFFECTS and effect not in kept:
        yield field.not_supported(f"{at}.effect", effect, EFFECTS)


# ── claims, templates and classes ────────────────────────────────────────────────────────────────


def declared_claim(devices: Document, at: str, options: Options) -> Errors:
    """Yield what the declared rules say about what a claim asks for."""
    requests, where = devices.get("requests") or [], f"{at}.requests"
    if over := too_long_list(requests, MOST, where):
        yield from over
    else:
        yield from repeated(requests, ("name",), where, "resource.v1.DeviceRequest")
        yield from field.each(_request, requests, where, options)
    constraints, where = devices.get("constraints") or [], f"{at}.constraints"
    if over := too_long_list(constraints, MOST, where):
        yield from over
    else:
        for i, constraint in enumerate(constraints):
            yield from declared_references(constraint.get("requests") or [], f"{where}[{i}].requests")
            for name in ("matchAttribute", "distinctAttribute"):
                if constraint.get(name) is not None:
                    yield from fully_qualified_name(constraint[name], f"{where}[{i}].{name}")
    yield from configs(devices.get("config") or [], f"{at}.config")


def configs(entries: list[Document], at: str, most: int = MOST) -> Errors:
    """Yield what is wrong with opaque configuration."""
    if over := too_long_list(entries, most, at):
        yield from over
        return
    for i, entry in enumerate(entries):
        yield from declared_references(entry.get("requests") or [], f"{at}[{i}].requests")
        if (opaque := entry.get("opaque")) is not None:
            yield from validate_driver_reference(opaque.get("driver") or "", f"{at}[{i}].opaque.driver")


def _request(request: Document, at: str, options: Options) -> Errors:
    if (exactly := request.get("exactly")) is not None:
        yield from _asked(exactly, f"{at}.exactly", options)
    alternatives, at = request.get("firstAvailable") or [], f"{at}.firstAvailable"
    if over := too_long_list(alternatives, MOST_SUBREQUESTS, at):
        yield from over
        return
    yield from repeated(alternatives, ("name",), at, "resource.v1.DeviceSubRequest")
    for i, alternative in enumerate(alternatives):
        yield from long_name(alternative.get("deviceClassName") or "", f"{at}[{i}].deviceClassName")
        yield from _asked(alternative, f"{at}[{i}]", options)


def _asked(request: Document, at: str, options: Options) -> Errors:
    yield from too_long_list(request.get("selectors") or [], MOST_SELECTORS, f"{at}.selectors")
    if (mode := request.get("allocationMode") or MODES[0]) not in MODES:
        yield field.not_supported(f"{at}.allocationMode", mode, MODES)
    yield from tolerations(request.get("tolerations") or [], f"{at}.tolerations", options)


def tolerations(listed: list[Document], at: str, options: Options) -> Errors:
    """Yield what is wrong with keys, operators and effects of tolerations."""
    if len(listed) > MOST_TOLERATIONS:
        return  # D-08, reported by the first pass
    for i, toleration in enumerate(listed):
        if not toleration.get("expression"):
            yield from _toleration(toleration, f"{at}[{i}]", options)


def _toleration(toleration: Document, at: str, options: Options) -> Errors:
    operator, value = toleration.get("operator") or "Equal", toleration.get("value") or ""
    yield from field.well_formed(f"{at}.key", toleration.get("key") or None, check_label_key)
    if operator not in ("Exists", "Equal"):
        problems = validate_comparison(operator, value, at, options)
        yield from (error for error in problems if error.field.endswith(".operator"))
    yield from field.one_of(f"{at}.effect", toleration.get("effect") or None, EFFECTS)


def declared_class(new: Document, old: Document | None) -> Errors:
    """Yield what the declared rules say about a class."""
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}

    def changed(name: str) -> bool:
        return old is None or not same(spec.get(name), before.get(name))

    metadata = new.get("metadata") or {}
    if old is None and (name := metadata.get("name") or ""):
        yield from field.each_invalid("metadata.name", name, in_bytes(check_dns1123_subdomain(name)))
    if changed("selectors"):
        yield from too_long_list(spec.get("selectors") or [], MOST_SELECTORS, "spec.selectors")
    if changed("config"):
        yield from configs(spec.get("config") or [], "spec.config")
    if spec.get("extendedResourceName") is not None and changed("extendedResourceName"):
        yield from extended_resource_name(spec["extendedResourceName"], "spec.extendedResourceName")
