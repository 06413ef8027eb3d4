"""May the status of a claim be written so?

Spec: dra.md 1.8 "ResourceClaim status", 1.15. An allocation is set once and removed as a whole; nobody may be
reserved without one.
What surprises: tolerations in a result are copies, so operators of the claim's spec are accepted even when their
gate is off by now.
Not here: the spec (weir.validate.resource_claim).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from weir.validate.conditions import validate_conditions
from weir.validate.device_names import (
    validate_device_name,
    validate_driver_name,
    validate_driver_reference,
    validate_pool_name,
)
from weir.validate.device_taints import validate_device_tolerations, validate_json_object
from weir.validate.field import (
    Document,
    Errors,
    FieldError,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from weir.validate.meta import same
from weir.validate.ratchet import NUMERIC_OPERATORS, SEMVER_OPERATORS, Options
from weir.values.names import check_dns1123_label

MOST_RESULTS: Final = 32
MOST_CONFIGS: Final = 64
MOST_CONSUMERS: Final = 256
MODIFIED: Final = "field cannot be modified once set"
NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def validate_claim_status(new: Document, old: Document, options: Options, *, slashes: bool = False) -> Errors:
    """Yield what is wrong with a new status of a claim; with *slashes* a driver's name may have some."""
    later: list[FieldError] = []
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, was = status.get("allocation"), before.get("allocation")
    spec = new.get("spec") or {}
    yield from _validate_consumers(status, new, before, later)
    yield from _validate_devices(status.get("devices") or [], allocation)
    if allocation is not None and was is None:
        with_copies = _with_spec_operators(options, spec)
        yield from _validate_allocation(allocation, spec, with_copies, later, slashes)
    elif allocation is not None and not same(allocation, was):
        later.append(invalid("status.allocation", None, MODIFIED))
    yield from later


def _requests(spec: Document) -> list[Document]:
    """Return every exact request and every alternative of a claim."""
    found = []
    for request in (spec.get("devices") or {}).get("requests") or ():
        found += [request.get("exactly") or {}, *(request.get("firstAvailable") or ())]
    return found


def _with_spec_operators(options: Options, spec: Document) -> Options:
    tolerations = [t for request in _requests(spec) for t in request.get("tolerations") or ()]
    operators = {toleration.get("operator") for toleration in tolerations}
    return replace(
        options,
        numeric=options.numeric or bool(operators & NUMERIC_OPERATORS),
        semver=options.semver or bool(operators & SEMVER_OPERATORS),
        cel=options.cel or any(toleration.get("expression") for toleration in tolerations),
    )


def _names(spec: Document) -> set[str]:
    names: set[str] = set()
    for request in (spec.get("devices") or {}).get("requests") or ():
        name = request.get("name") or ""
        alternatives = request.get("firstAvailable") or ()
        names |= {f"{name}/{sub.get('name') or ''}" for sub in alternatives} if alternatives else {name}
    return names


def _validate_allocation(
    allocation: Document, spec: Document, options: Options, later: list[FieldError], slashes: bool
) -> Errors:
    devices, names = allocation.get("devices") or {}, _names(spec)
    results, configs = devices.get("results") or [], devices.get("config") or []
    at = "status.allocation.devices"
    if len(results) > MOST_RESULTS:
        later.append(too_many(f"{at}.results", len(results), MOST_RESULTS))
    else:
        for i, result in enumerate(results):
            yield from _validate_result(result, names, f"{at}.results[{i}]", options, later, slashes)
    if len(configs) > MOST_CONFIGS:
        later.append(too_many(f"{at}.config", len(configs), MOST_CONFIGS))
        return
    for i, config in enumerate(configs):
        yield from _validate_config(config, names, f"{at}.config[{i}]", later)


def _validate_reference(name: str, names: Collection[str], at: str) -> Errors:
    for part in name.split("/"):
        yield from each_invalid(at, part, check_dns1123_label(part))
    if name not in names:
        yield invalid(at, name, NOT_A_REQUEST)


def _validate_result(
    result: Document,
    names: Collection[str],
    at: str,
    options: Options,
    later: list[FieldError],
    slashes: bool,
) -> Errors:
    yield from _validate_reference(result.get("request") or "", names, f"{at}.request")
    yield from validate_driver_name(result.get("driver") or "", f"{at}.driver", slashes=slashes)
    yield from validate_pool_name(result.get("pool") or "", f"{at}.pool")
    yield from validate_device_name(result.get("device") or "", f"{at}.device")
    tolerations = result.get("tolerations") or []
    yield from validate_device_tolerations(tolerations, f"{at}.tolerations", options, later)


def _validate_config(config: Document, names: Collection[str], at: str, later: list[FieldError]) -> Errors:
    source = config.get("source") or ""
    if source not in ("FromClaim", "FromClass"):
        if source:
            yield not_supported(f"{at}.source", source, ("FromClaim", "FromClass"))
        else:
            yield required(f"{at}.source")
    for i, name in enumerate(config.get("requests") or ()):
        yield from _validate_reference(name, names, f"{at}.requests[{i}]")
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{at}.opaque")
        return
    later.extend(validate_driver_reference(opaque.get("driver") or "", f"{at}.opaque.driver"))
    if opaque.get("parameters") is None:
        yield required(f"{at}.opaque.parameters")
    else:
        yield from validate_json_object(opaque["parameters"], f"{at}.opaque.parameters")


def _validate_consumers(
    status: Document, claim: Document, before: Document, later: list[FieldError]
) -> Errors:
    consumers = status.get("reservedFor") or []
    if len(consumers) > MOST_CONSUMERS:
        later.append(too_many("status.reservedFor", len(consumers), MOST_CONSUMERS))
    seen: set[str] = set()
    for i, consumer in enumerate(consumers):
        for name in ("resource", "name", "uid"):
            if not consumer.get(name):
                yield required(f"status.reservedFor[{i}].{name}")
        uid = consumer.get("uid") or ""
        if uid in seen:
            later.append(duplicate(f"status.reservedFor[{i}]", consumer))
        seen.add(uid)
    if consumers and status.get("allocation") is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    known = {consumer.get("uid") for consumer in before.get("reservedFor") or ()}
    if (claim.get("metadata") or {}).get("deletionTimestamp") and seen - known:
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield forbidden("status.reservedFor", detail)


def _validate_devices(devices: list[Document], allocation: Document | None) -> Errors:
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    allocated = {(r.get("driver"), r.get("pool"), r.get("device")) for r in results}
    for i, device in enumerate(devices):
        at, key = f"status.devices[{i}]", tuple(device.get(name) for name in ("driver", "pool", "device"))
        if key not in allocated:
            shown: Any = {name: device.get(name) or "" for name in ("driver", "pool", "device")}
            yield invalid(at, shown, "must be an allocated device in the claim")
        yield from validate_conditions(device.get("conditions") or [], f"{at}.conditions")
        if len(device.get("conditions") or ()) > 8:
            yield too_many(f"{at}.conditions", len(device["conditions"]), 8)
        if device.get("data") is not None:
            yield from validate_json_object(device["data"], f"{at}.data")
