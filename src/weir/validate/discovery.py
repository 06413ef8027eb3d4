"""Validation of EndpointSlice."""

from __future__ import annotations

from typing import Any, Final

from weir.fields import field
from weir.fields.addresses import check_ip, check_usable_ip, find_ip
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import IMMUTABLE, validate_labels, validate_meta
from weir.validate.core.service import PROTOCOLS
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
    yield from field.required_one_of("addressType", kind, _ADDRESS_TYPES)
    if len(endpoints) > 1000:
        yield field.too_many("endpoints", len(endpoints), 1000)
    for i, endpoint in enumerate(endpoints):
        # The type cannot change, so what is wrong with a new one is not also wrong with every address.
        yield from _validate_endpoint(endpoint, (old or new).get("addressType") or "", f"endpoints[{i}]")
    ports: list[Any] = new.get("ports") or []
    names: set[str] = set()
    for i, port in enumerate(ports):
        name = port.get("name") or ""
        yield from field.well_formed(f"ports[{i}].name", name or None, check_dns1123_label)
        yield from field.unique(name, names, f"ports[{i}].name")
        yield from field.one_of(f"ports[{i}].protocol", port.get("protocol") or "TCP", PROTOCOLS)
        yield from field.well_formed(f"ports[{i}].appProtocol", port.get("appProtocol"), check_label_key)
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
    yield from field.well_formed(f"{at}.nodeName", endpoint.get("nodeName"), check_dns1123_subdomain)
    topology = endpoint.get("deprecatedTopology")
    if topology:
        yield from validate_labels(topology, f"{at}.deprecatedTopology")
    yield from _validate_hints(endpoint.get("hints") or {}, f"{at}.hints")
    yield from field.well_formed(f"{at}.hostname", endpoint.get("hostname"), check_dns1123_label)


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
            yield from field.unique(name, names, f"{at}.{part}[{i}].name")
            yield from field.each_invalid(f"{at}.{part}[{i}].name", name, check(name))
