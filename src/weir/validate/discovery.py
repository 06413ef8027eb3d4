"""Validation of EndpointSlice."""

from __future__ import annotations

from typing import Any, Final

from weir.validate import field
from weir.validate.addresses import check_ip, check_usable_ip, find_ip
from weir.validate.core.service import PROTOCOLS
from weir.validate.field import Context, Document, Errors
from weir.validate.meta import IMMUTABLE, validate_labels, validate_meta
from weir.values.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
    check_label_value,
)

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")


def validate_endpoint_slice(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an EndpointSlice; its address type never changes."""
    yield from validate_meta(new, old, context)
    kind, endpoints = new.get("addressType") or "", new.get("endpoints") or []
    if not kind:
        yield field.required("addressType")
    elif kind not in _ADDRESS_TYPES:
        yield field.not_supported("addressType", kind, _ADDRESS_TYPES)
    if len(endpoints) > 1000:
        yield field.too_many("endpoints", len(endpoints), 1000)
    for i, endpoint in enumerate(endpoints):
        # The type cannot change, so what is wrong with a new one is not also wrong with every address.
        yield from _validate_endpoint(endpoint, (old or new).get("addressType") or "", f"endpoints[{i}]")
    ports: list[Any] = new.get("ports") or []
    names: set[str] = set()
    for i, port in enumerate(ports):
        name = port.get("name") or ""
        if name:
            yield from field.each_invalid(f"ports[{i}].name", name, check_dns1123_label(name))
        if name in names:
            yield field.duplicate(f"ports[{i}].name", name)
        names.add(name)
        if (protocol := port.get("protocol") or "TCP") not in PROTOCOLS:
            yield field.not_supported(f"ports[{i}].protocol", protocol, PROTOCOLS)
        if (application := port.get("appProtocol")) is not None:
            yield from field.each_invalid(
                f"ports[{i}].appProtocol", application, check_label_key(application)
            )
    if old is not None and kind != (old.get("addressType") or ""):
        yield field.invalid("addressType", None, IMMUTABLE)


def _validate_endpoint(endpoint: Document, kind: str, at: str) -> Errors:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield field.required(f"{at}.addresses")
    elif len(addresses) > 100:
        yield field.too_many(f"{at}.addresses", len(addresses), 100)
    for a, address in enumerate(addresses):
        found = find_ip(address)
        if kind == "FQDN":
            yield from field.each_invalid(f"{at}.addresses[{a}]", address, check_dns1123_subdomain(address))
        elif found is None:
            yield from field.each_invalid(f"{at}.addresses[{a}]", address, check_ip(address))
        else:
            if kind in ("IPv4", "IPv6") and f"IPv{found.version}" != kind:
                yield field.invalid(f"{at}.addresses", address, f"must be an {kind} address")
            yield from field.each_invalid(f"{at}.addresses[{a}]", address, check_usable_ip(address))
    if (node := endpoint.get("nodeName")) is not None:
        yield from field.each_invalid(f"{at}.nodeName", node, check_dns1123_subdomain(node))
    topology = endpoint.get("deprecatedTopology")
    if topology:
        yield from validate_labels(topology, f"{at}.deprecatedTopology")
    yield from _validate_hints(endpoint.get("hints") or {}, f"{at}.hints")
    if (hostname := endpoint.get("hostname")) is not None:
        yield from field.each_invalid(f"{at}.hostname", hostname, check_dns1123_label(hostname))


def _validate_hints(hints: Document, at: str) -> Errors:
    """Yield what is wrong with where the traffic of an endpoint should come from."""
    for part, most, check in (
        ("forZones", 8, check_label_value),
        ("forNodes", 8, check_dns1123_subdomain),
    ):
        wanted = hints.get(part) or []
        if len(wanted) > most:
            yield field.too_many(f"{at}.{part}", len(wanted), most)
            continue
        names: set[str] = set()
        for i, hint in enumerate(wanted):
            name = hint.get("name") or ""
            if name in names:
                yield field.duplicate(f"{at}.{part}[{i}].name", name)
            names.add(name)
            yield from field.each_invalid(f"{at}.{part}[{i}].name", name, check(name))
