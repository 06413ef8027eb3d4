"""Declarative validation of ResourceClaim status.

Spec: dra.md 1.8 "ResourceClaim status", 1.15. The second pass (weir.validate.declarative_merge). Unchanged parts are
skipped; an existing allocation may only be removed.
"""

from __future__ import annotations

import re
from typing import Final

from weir.validate.declared_devices import (
    binding_conditions,
    names,
    repeated,
    tolerations,
    too_long_list,
)
from weir.validate.device_names import POOL_MAX_BYTES, validate_driver_reference
from weir.validate.field import (
    Document,
    Errors,
    each_invalid,
    invalid,
    not_supported,
    required,
    too_long,
)
from weir.validate.meta import same
from weir.validate.ratchet import Options
from weir.values.names import byte_length, check_dns1123_subdomain, in_bytes

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
            yield invalid("status.allocation", None, MODIFIED)
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
        for i, result in enumerate(results):
            yield from _result(result, f"{at}.results[{i}]", options, slashes)
    if over := too_long_list(configs, MOST_CONFIGS, f"{at}.config"):
        yield from over
        return
    for i, config in enumerate(configs):
        where = f"{at}.config[{i}]"
        source = config.get("source") or ""
        if not source:
            yield required(f"{where}.source")
        elif source not in SOURCES:
            yield not_supported(f"{where}.source", source, SOURCES)
        yield from names(config.get("requests") or [], f"{where}.requests")
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
        yield required(at)
        return
    if byte_length(name) > POOL_MAX_BYTES:
        yield too_long(at, POOL_MAX_BYTES)
    for i, part in enumerate(name.split("/")):
        if not part:
            yield invalid(at, name, f"segment {i}: must not be empty")
        else:
            messages = in_bytes(check_dns1123_subdomain(part))
            yield from each_invalid(at, part, (f"segment {i}: {message}" for message in messages))


def _share_id(holder: Document, at: str) -> Errors:
    share = holder.get("shareID")
    if share is not None and not _is_uuid(share):
        yield invalid(f"{at}.shareID", share, NOT_A_UUID)


def _device(device: Document, at: str) -> Errors:
    yield from _share_id(device, at)
    network = device.get("networkData") or {}
    if byte_length(network.get("interfaceName") or "") > 256:
        yield too_long(f"{at}.networkData.interfaceName", 256)
    addresses, where = network.get("ips") or [], f"{at}.networkData.ips"
    yield from too_long_list(addresses, MOST_ADDRESSES, where) or repeated(addresses, (), where)
    if byte_length(network.get("hardwareAddress") or "") > 128:
        yield too_long(f"{at}.networkData.hardwareAddress", 128)
