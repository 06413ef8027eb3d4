"""Validation of ResourceClaim status, and of references to requests and drivers.

Spec: dra.md 1.6 "ResourceClaim spec" (`constraints`, `config`), 1.8 "ResourceClaim status", 1.15. A request with
alternatives may be named as a whole or together with one of them. An allocation is set once and removed as a whole;
reservations need an allocation. Tolerations in a result are copies, so operators of the claim's spec are accepted even
when their gate is off. The declarative pass (weir.fields.field) skips unchanged parts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from weir.fields import field
from weir.fields.addresses import canonical_interface
from weir.fields.field import Document, Errors, covered, each_invalid, invalid, required, too_many
from weir.fields.meta import same
from weir.validate.conditions import validate_conditions
from weir.validate.ratchet import Options, toleration_gates
from weir.validate.resource.declared_devices import (
    MOST,
    binding_conditions,
    declared_references,
    repeated,
    tolerations,
    too_long_list,
)
from weir.validate.resource.device_names import (
    POOL_MAX_BYTES,
    validate_device_name,
    validate_driver_name,
    validate_driver_reference,
    validate_pool_name,
)
from weir.validate.resource.device_taint_rule import validate_device_tolerations, validate_json_object
from weir.validate.resource.resource_slice import validate_binding_conditions
from weir.validate.selectors import validate_node_selector
from weir.values.names import check_dns1123_label, check_dns1123_subdomain, in_bytes
from weir.values.quoting import quote

NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
#: a claim's requests, each with its alternatives
Names = Mapping[str, Collection[str]]


def over_limit(entries: list[Any], most: int, at: str) -> Errors:
    """Yield that a list is over its limit; nothing else of such a list is reported."""
    if len(entries) > most:
        yield from covered([too_many(at, len(entries), most)])


def request_names(devices: Document) -> dict[str, set[str]]:
    """Return the requests that constraints and results may refer to, each with its alternatives."""
    names: dict[str, set[str]] = {}
    for request in devices.get("requests") or ():
        names[request.get("name") or ""] = {
            alternative.get("name") or "" for alternative in request.get("firstAvailable") or ()
        }
    return names


def validate_reference(name: str, names: Names, at: str) -> Errors:
    """Yield what is wrong with a reference to a request, or to a request and one of its alternatives."""
    parts = name.split("/")
    if len(parts) > 2:
        yield invalid(at, name, NOT_A_REQUEST)
        return
    for part in parts:
        yield from each_invalid(at, part, check_dns1123_label(part))
    if parts[0] not in names or (len(parts) > 1 and parts[1] not in names[parts[0]]):
        yield invalid(at, name, NOT_A_REQUEST)


def validate_references(listed: list[str], names: Names, at: str) -> Errors:
    """Yield what is wrong with a list of such references."""
    if over := list(over_limit(listed, MOST, at)):
        yield from over
        return
    for i, name in enumerate(listed):
        yield from validate_reference(name, names, f"{at}[{i}]")


def validate_configs(
    configs: list[Document], names: Names | None, at: str, *, stored: bool = False
) -> Errors:
    """Yield what is wrong with opaque configuration; a class names no requests (None)."""
    if over := list(over_limit(configs, MOST, at)):
        yield from over
        return
    for i, config in enumerate(configs):
        if names is not None:
            yield from validate_references(config.get("requests") or [], names, f"{at}[{i}].requests")
        yield from validate_opaque(config, f"{at}[{i}]", stored=stored)


def validate_opaque(config: Document, at: str, *, stored: bool = False) -> Errors:
    """Yield what is wrong with the parameters for a driver; *stored* ones may be as long as they are."""
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{at}.opaque")
        return
    yield from covered(validate_driver_name(opaque.get("driver") or "", f"{at}.opaque.driver"))
    if opaque.get("parameters") is None:
        yield required(f"{at}.opaque.parameters")
    elif not stored:
        yield from validate_json_object(opaque["parameters"], f"{at}.opaque.parameters")


MOST_CONDITIONS: Final = 8
NOT_INTERFACE_ADDRESS: Final = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


MOST_RESULTS: Final = 32
MOST_CONFIGS: Final = 64
MOST_CONSUMERS: Final = 256
MOST_ADDRESSES: Final = 16
SOURCES: Final = ("FromClaim", "FromClass")
MODIFIED: Final = "field cannot be modified once set"
NOT_A_UUID: Final = "must be a lowercase UUID in 8-4-4-4-12 format"
_is_uuid = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_STATUS_KEYS: Final = ("driver", "device", "pool", "shareID")


def declared_status(status: Document, old: Document, options: Options, *, slashes: bool) -> Errors:
    """Yield what the declared rules say about a new status of a claim."""
    allocation, was = status.get("allocation"), old.get("allocation")
    if allocation is not None and not same(allocation, was):
        if was is not None:
            yield field.invalid("status.allocation", None, MODIFIED)
        else:
            yield from _allocation(allocation.get("devices") or {}, options, slashes)
    consumers, at = status.get("reservedFor") or [], "status.reservedFor"
    if not same(consumers, old.get("reservedFor") or []):
        over = too_long_list(consumers, MOST_CONSUMERS, at)
        yield from over or repeated(consumers, ("uid",), at, "resource.v1.ResourceClaimConsumerReference")
    devices, known = status.get("devices") or [], old.get("devices") or []
    if not same(devices, known):
        yield from repeated(devices, _STATUS_KEYS, "status.devices", "resource.v1.AllocatedDeviceStatus")
        for i, device in enumerate(devices):
            if device not in known:
                yield from _device(device, f"status.devices[{i}]")


def _allocation(devices: Document, options: Options, slashes: bool) -> Errors:
    at = "status.allocation.devices"
    results, configs = devices.get("results") or [], devices.get("config") or []
    if over := too_long_list(results, MOST_RESULTS, f"{at}.results"):
        yield from over
    else:
        yield from field.each(_result, results, f"{at}.results", options, slashes)
    if over := too_long_list(configs, MOST_CONFIGS, f"{at}.config"):
        yield from over
        return
    for i, config in enumerate(configs):
        where = f"{at}.config[{i}]"
        yield from field.required_one_of(f"{where}.source", config.get("source"), SOURCES)
        yield from declared_references(config.get("requests") or [], f"{where}.requests")
        if (opaque := config.get("opaque")) is not None:
            yield from validate_driver_reference(opaque.get("driver") or "", f"{where}.opaque.driver")


def _result(result: Document, at: str, options: Options, slashes: bool) -> Errors:
    yield from validate_driver_reference(result.get("driver") or "", f"{at}.driver", slashes=slashes)
    yield from _pool_name(result.get("pool") or "", f"{at}.pool")
    yield from tolerations(result.get("tolerations") or [], f"{at}.tolerations", options)
    yield from binding_conditions(result, at)
    yield from _share_id(result, at)


def _pool_name(name: str, at: str) -> Errors:
    if not name:
        yield field.required(at)
        return
    yield from field.short_enough(at, name, POOL_MAX_BYTES)
    for i, part in enumerate(name.split("/")):
        if not part:
            yield field.invalid(at, name, f"segment {i}: must not be empty")
        else:
            messages = in_bytes(check_dns1123_subdomain(part))
            yield from field.each_invalid(at, part, (f"segment {i}: {message}" for message in messages))


def _share_id(holder: Document, at: str) -> Errors:
    share = holder.get("shareID")
    if share is not None and not _is_uuid(share):
        yield field.invalid(f"{at}.shareID", share, NOT_A_UUID)


def _device(device: Document, at: str) -> Errors:
    yield from _share_id(device, at)
    network = device.get("networkData") or {}
    yield from field.short_enough(f"{at}.networkData.interfaceName", network.get("interfaceName") or "", 256)
    addresses, where = network.get("ips") or [], f"{at}.networkData.ips"
    yield from too_long_list(addresses, MOST_ADDRESSES, where) or repeated(addresses, (), where)
    yield from field.short_enough(
        f"{at}.networkData.hardwareAddress", network.get("hardwareAddress") or "", 128
    )


def validate_claim_status(new: Document, old: Document, options: Options, *, slashes: bool = False) -> Errors:
    """Yield what is wrong with a new status of a claim; with *slashes* a driver's name may have some."""
    status, before = new.get("status") or {}, old.get("status") or {}
    spec = new.get("spec") or {}
    with_copies = _with_spec_operators(options, spec)
    yield from field.settle(
        _handwritten(new, status, before, with_copies, slashes),
        declared_status(status, before, with_copies, slashes=slashes),
    )


def _handwritten(
    claim: Document, status: Document, before: Document, options: Options, slashes: bool
) -> Errors:
    allocation = status.get("allocation")
    yield from _validate_consumers(status)
    yield from _validate_devices(status.get("devices") or [], allocation)
    yield from _validate_reservation(status, claim, before)
    if allocation is not None and before.get("allocation") is None:
        yield from _validate_allocation(allocation, claim.get("spec") or {}, options, slashes)


def _requests(spec: Document) -> list[Document]:
    """Return every exact request and every alternative of a claim."""
    requests = []
    for request in (spec.get("devices") or {}).get("requests") or ():
        requests += [request.get("exactly") or {}, *(request.get("firstAvailable") or ())]
    return requests


def _with_spec_operators(options: Options, spec: Document) -> Options:
    tolerations = [t for request in _requests(spec) for t in request.get("tolerations") or ()]
    return options.with_features(toleration_gates(tolerations))


def _validate_allocation(allocation: Document, spec: Document, options: Options, slashes: bool) -> Errors:
    devices, requests = allocation.get("devices") or {}, request_names(spec.get("devices") or {})
    results, configs = devices.get("results") or [], devices.get("config") or []
    at = "status.allocation.devices"
    if over := list(over_limit(results, MOST_RESULTS, f"{at}.results")):
        yield from over
    else:
        for i, result in enumerate(results):
            yield from _validate_result(result, requests, f"{at}.results[{i}]", options, slashes)
    if over := list(over_limit(configs, MOST_CONFIGS, f"{at}.config")):
        yield from over
    else:
        for i, config in enumerate(configs):
            yield from validate_references(
                config.get("requests") or [], requests, f"{at}.config[{i}].requests"
            )
            yield from validate_opaque(config, f"{at}.config[{i}]")
    if (selector := allocation.get("nodeSelector")) is not None:
        yield from validate_node_selector(selector, "status.allocation.nodeSelector", options)


def _validate_result(result: Document, requests: Names, at: str, options: Options, slashes: bool) -> Errors:
    yield from validate_reference(result.get("request") or "", requests, f"{at}.request")
    yield from field.covered(
        validate_driver_name(result.get("driver") or "", f"{at}.driver", slashes=slashes)
    )
    yield from field.covered(validate_pool_name(result.get("pool") or "", f"{at}.pool"))
    yield from validate_device_name(result.get("device") or "", f"{at}.device")
    yield from validate_binding_conditions(result, at)
    yield from validate_device_tolerations(result.get("tolerations") or [], f"{at}.tolerations", options)


def _validate_consumers(status: Document) -> Errors:
    consumers = status.get("reservedFor") or []
    for i, consumer in enumerate(consumers if len(consumers) <= MOST_CONSUMERS else ()):
        for name in ("resource", "name", "uid"):
            yield from field.present(f"status.reservedFor[{i}].{name}", consumer.get(name))


def _validate_reservation(status: Document, claim: Document, before: Document) -> Errors:
    consumers = status.get("reservedFor") or []
    if not consumers:
        return
    if status.get("allocation") is None:
        yield field.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif (claim.get("metadata") or {}).get("deletionTimestamp"):
        known = before.get("reservedFor") or ()
        if any(consumer not in known for consumer in consumers):
            detail = (
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            )
            yield field.forbidden("status.reservedFor", detail)


def device_key(holder: Document) -> tuple[str, ...]:
    """Return what identifies an allocated device: driver, pool, device and the share of it."""
    return tuple(holder.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _validate_devices(devices: list[Document], allocation: Document | None) -> Errors:
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    allocated = set(map(device_key, results))
    for i, device in enumerate(devices):
        at = f"status.devices[{i}]"
        yield from validate_driver_name(device.get("driver") or "", f"{at}.driver")
        yield from validate_pool_name(device.get("pool") or "", f"{at}.pool")
        yield from validate_device_name(device.get("device") or "", f"{at}.device")
        if device_key(device) not in allocated:
            shown = dict(zip(("Driver", "Pool", "Device", "ShareID"), device_key(device), strict=True))
            yield field.invalid(at, shown, "must be an allocated device in the claim")
        conditions = device.get("conditions") or []
        yield from field.at_most(f"{at}.conditions", conditions, MOST_CONDITIONS)
        yield from validate_conditions(conditions, f"{at}.conditions")
        if device.get("data") is not None:
            yield from validate_json_object(device["data"], f"{at}.data")
        addresses = (device.get("networkData") or {}).get("ips") or []
        yield from field.each(
            _validate_address, addresses if len(addresses) <= MOST_ADDRESSES else (), f"{at}.networkData.ips"
        )


def _validate_address(address: str, at: str) -> Errors:
    """Yield what is wrong with the address of an interface: an address with the length of its network's prefix."""
    canonical = canonical_interface(address)
    if canonical is None:
        yield field.invalid(at, address, NOT_INTERFACE_ADDRESS)
    elif canonical != address:
        yield field.invalid(at, address, f"must be in canonical form ({quote(canonical)})")
