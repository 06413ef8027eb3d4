"""May a workload ask for devices so? ResourceClaim, ResourceClaimTemplate and DeviceClass.

Spec: dra.md 1.6 "ResourceClaim spec", 1.8 "ResourceClaim status", 1.9, 1.15; D-08, D-15.
What surprises: the server checks in two passes (the list *later* is the second one: limits, duplicates, operators,
effects); a duplicate entry prints whole, in its wire form; a claim's spec never changes.
Not here: the status an allocation may have (weir.validate.claim_status), allocating (weir.devices.allocation).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from weir.validate.claim_status import validate_claim_status
from weir.validate.context import Context
from weir.validate.device_names import (
    validate_device_name,
    validate_driver_reference,
    validate_fully_qualified_name,
    validate_selectors,
)
from weir.validate.device_taints import POSITIVE, validate_device_tolerations, validate_json_object
from weir.validate.field import (
    INVALID,
    Document,
    Errors,
    FieldError,
    duplicate,
    each_invalid,
    invalid,
    not_supported,
    required,
    too_many,
)
from weir.validate.meta import IMMUTABLE, same, validate_meta, validate_template_meta
from weir.validate.ratchet import Options, options_for
from weir.values.names import check_dns1123_label, check_dns1123_subdomain, check_label_key

MOST: Final = 32
MOST_SUBREQUESTS: Final = 8
_MODES: Final = ("All", "ExactCount")
ONE_FORM: Final = "exactly one of `exactly` or `firstAvailable` is required"
ONE_ATTRIBUTE: Final = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)
NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def validate_resource_claim(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ResourceClaim."""
    options = options_for(context.gates, context.raw)
    yield from validate_meta(new, old, context)
    if old is None:
        later: list[FieldError] = []
        yield from validate_claim_spec(new.get("spec") or {}, "spec", options, later)
        yield from later
    elif context.subresource == "status":
        yield from validate_claim_status(new, old, options, slashes=context.relaxed)
    elif not same(new.get("spec"), old.get("spec")):
        yield invalid("spec", None, IMMUTABLE)


def validate_resource_claim_template(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ResourceClaimTemplate; its spec never changes."""
    spec, later = new.get("spec") or {}, list[FieldError]()
    yield from validate_meta(new, old, context)
    yield from validate_template_meta(spec.get("metadata") or {}, "spec.metadata")
    yield from validate_claim_spec(
        spec.get("spec") or {}, "spec.spec", options_for(context.gates, context.raw), later
    )
    yield from later
    if old is not None and not same(spec, old.get("spec")):
        yield invalid("spec", spec, IMMUTABLE)


def validate_device_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a DeviceClass."""
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    later: list[FieldError] = []
    for error in validate_meta(new, old, context, _check_class_name):
        # The name is the second pass's business.
        if error.field == "metadata.name" and error.type == INVALID:
            later.append(error)
        else:
            yield error
    known = None if old is None else before.get("selectors") or []
    yield from validate_selectors(spec.get("selectors") or [], "spec.selectors", later, known)
    if old is None or not same(spec.get("config"), before.get("config")):
        yield from validate_configs(spec.get("config") or [], None, "spec.config", later)
    if (name := spec.get("extendedResourceName")) is not None:
        later.extend(_validate_extended_name(name, "spec.extendedResourceName"))
    yield from later


def _check_class_name(name: str) -> tuple[str, ...]:
    return tuple(
        message.replace("characters", "bytes", 1) if "no more than" in message else message
        for message in check_dns1123_subdomain(name)
    )


def _validate_extended_name(name: str, at: str) -> Errors:
    if "/" not in name:
        yield invalid(at, name, "a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    if "kubernetes.io/" in name:
        yield invalid(at, name, 'must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        yield invalid(at, name, 'must not have "requests." prefix')
    yield from each_invalid(at, name, check_label_key("requests." + name))


# ── the spec of a claim ──────────────────────────────────────────────────────────────────────────


def validate_claim_spec(spec: Document, at: str, options: Options, later: list[FieldError]) -> Errors:
    """Yield what is wrong with the spec of a claim; what the server finds second goes to *later*."""
    devices, at = spec.get("devices") or {}, f"{at}.devices"
    requests = devices.get("requests") or []
    if not _is_too_long(requests, MOST, f"{at}.requests", later):
        for i, request in enumerate(requests):
            yield from _validate_request(request, f"{at}.requests[{i}]", options, later)
        _find_repeated(requests, "name", f"{at}.requests", later)
    names = request_names(devices)
    constraints = devices.get("constraints") or []
    if not _is_too_long(constraints, MOST, f"{at}.constraints", later):
        for i, constraint in enumerate(constraints):
            yield from _validate_constraint(constraint, names, f"{at}.constraints[{i}]", later)
    yield from validate_configs(devices.get("config") or [], names, f"{at}.config", later)


def _is_too_long(entries: list[Any], most: int, at: str, later: list[FieldError]) -> bool:
    """Return whether a list is over its limit, noting it; nothing else of such a list is reported."""
    if len(entries) <= most:
        return False
    later.append(too_many(at, len(entries), most))
    return True


def _find_repeated(entries: Iterable[Document], key: str, at: str, later: list[FieldError]) -> None:
    seen: set[str] = set()
    for i, entry in enumerate(entries):
        if (name := entry.get(key) or "") in seen:
            later.append(duplicate(f"{at}[{i}]", _in_wire_order(_with_defaults(entry))))
        seen.add(name)


_WIRE_ORDER: Final = (
    "name", "exactly", "firstAvailable", "deviceClassName", "selectors", "allocationMode", "count", "adminAccess",
    "tolerations", "capacity",
)  # fmt: skip


def _with_defaults(entry: Document) -> Document:
    """Return a request as the server fills it in before it prints it."""
    shown = {"name": "", **{name: value for name, value in entry.items() if value not in (None, [], {})}}
    if entry.get("exactly") is not None:
        shown["exactly"] = _with_count(entry["exactly"])
    if entry.get("firstAvailable"):
        shown["firstAvailable"] = [{"name": "", **_with_count(sub)} for sub in entry["firstAvailable"]]
    return shown


def _with_count(request: Document) -> Document:
    mode = request.get("allocationMode") or "ExactCount"
    counted = {"count": request.get("count") or 1} if mode == "ExactCount" else {}
    given = {name: value for name, value in request.items() if value not in (None, [], {})}
    return {"deviceClassName": "", **given, "allocationMode": mode, **counted}


def _in_wire_order(entry: Any) -> Any:
    """Return a request with its fields in the order the server prints them."""
    if isinstance(entry, list):
        return [_in_wire_order(item) for item in entry]
    if not isinstance(entry, dict):
        return entry
    known = [name for name in _WIRE_ORDER if name in entry]
    return {
        name: _in_wire_order(entry[name]) for name in [*known, *(n for n in entry if n not in _WIRE_ORDER)]
    }


def request_names(devices: Document) -> set[str]:
    """Return what constraints and results may refer to: requests, and subrequests as `request/subrequest`."""
    names: set[str] = set()
    for request in devices.get("requests") or ():
        name = request.get("name") or ""
        names.add(name)
        names |= {f"{name}/{sub.get('name') or ''}" for sub in request.get("firstAvailable") or ()}
    return names


def _validate_request(request: Document, at: str, options: Options, later: list[FieldError]) -> Errors:
    yield from validate_device_name(request.get("name") or "", f"{at}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and alternatives:
        yield invalid(at, None, ONE_FORM + ", but multiple fields are set")
        for i, sub in enumerate(alternatives):  # the second pass does not know that the first gave up
            where = f"{at}.firstAvailable[{i}]"
            later.extend(_validate_class_name(sub.get("deviceClassName") or "", f"{where}.deviceClassName"))
            if (mode := sub.get("allocationMode") or "All") not in _MODES:
                later.append(not_supported(f"{where}.allocationMode", mode, _MODES))
    elif exactly is not None:
        class_name = exactly.get("deviceClassName") or ""
        yield from _validate_class_name(class_name, f"{at}.exactly.deviceClassName")
        yield from _validate_device_request(exactly, f"{at}.exactly", options, later)
    elif alternatives:
        where = f"{at}.firstAvailable"
        if _is_too_long(alternatives, MOST_SUBREQUESTS, where, later):
            return
        for i, sub in enumerate(alternatives):
            yield from validate_device_name(sub.get("name") or "", f"{where}[{i}].name")
            later.extend(
                _validate_class_name(sub.get("deviceClassName") or "", f"{where}[{i}].deviceClassName")
            )
            yield from _validate_device_request(sub, f"{where}[{i}]", options, later)
        _find_repeated([{"name": "", **_with_count(sub)} for sub in alternatives], "name", where, later)
    else:
        yield required(at, ONE_FORM)


def _validate_class_name(name: str, at: str) -> Errors:
    if not name:
        yield required(at)
    else:
        yield from each_invalid(at, name, check_dns1123_subdomain(name))


def _validate_device_request(request: Document, at: str, options: Options, later: list[FieldError]) -> Errors:
    """Yield what is wrong with what `exactly` and the alternatives share."""
    yield from validate_selectors(request.get("selectors") or [], f"{at}.selectors", later)
    mode, count = request.get("allocationMode") or "ExactCount", request.get("count") or 0
    if mode == "All":
        if count:
            yield invalid(f"{at}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if count < 0:
            yield invalid(f"{at}.count", count, POSITIVE)
    else:
        later.append(not_supported(f"{at}.allocationMode", mode, _MODES))
    tolerations = request.get("tolerations") or []
    yield from validate_device_tolerations(tolerations, f"{at}.tolerations", options, later)


def _validate_reference(name: str, names: Collection[str], at: str) -> Errors:
    """Yield what is wrong with a reference to a request."""
    for part in name.split("/"):
        yield from each_invalid(at, part, check_dns1123_label(part))
    if name not in names:
        yield invalid(at, name, NOT_A_REQUEST)


def _validate_references(
    listed: list[str], names: Collection[str], at: str, later: list[FieldError]
) -> Errors:
    if _is_too_long(listed, MOST, at, later):
        return
    seen: set[str] = set()
    for i, name in enumerate(listed):
        yield from _validate_reference(name, names, f"{at}[{i}]")
        if name in seen:
            later.append(duplicate(f"{at}[{i}]", name))
        seen.add(name)


def _validate_constraint(
    constraint: Document, names: Collection[str], at: str, later: list[FieldError]
) -> Errors:
    yield from _validate_references(constraint.get("requests") or [], names, f"{at}.requests", later)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        later.extend(validate_fully_qualified_name(match, f"{at}.matchAttribute"))
    if distinct is not None:
        later.extend(validate_fully_qualified_name(distinct, f"{at}.distinctAttribute"))
    if match is None and distinct is None:
        yield required(at, ONE_ATTRIBUTE)


def validate_configs(
    configs: list[Document], names: Collection[str] | None, at: str, later: list[FieldError], most: int = MOST
) -> Errors:
    """Yield what is wrong with opaque configuration; a class names no requests (None)."""
    if _is_too_long(configs, most, at, later):
        return
    for i, config in enumerate(configs):
        where = f"{at}[{i}]"
        if names is not None:
            yield from _validate_references(config.get("requests") or [], names, f"{where}.requests", later)
        opaque = config.get("opaque")
        if opaque is None:
            yield required(f"{where}.opaque")
            continue
        later.extend(validate_driver_reference(opaque.get("driver") or "", f"{where}.opaque.driver"))
        if opaque.get("parameters") is None:
            yield required(f"{where}.opaque.parameters")
        else:
            yield from validate_json_object(opaque["parameters"], f"{where}.opaque.parameters")
