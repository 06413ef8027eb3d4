"""Validation of Endpoints."""

from __future__ import annotations

from weir.validate import field
from weir.validate.addresses import IP_MESSAGE, check_usable_ip, find_ip
from weir.validate.core.probes import PORT_RANGE
from weir.validate.core.service import PROTOCOLS
from weir.validate.field import Context, Document, Errors
from weir.validate.meta import validate_meta
from weir.values.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
)


def validate_endpoints(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with Endpoints."""
    yield from validate_meta(new, old, context)
    for s, subset in enumerate(new.get("subsets") or ()):
        at = f"subsets[{s}]"
        ready, not_ready = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
        if not ready and not not_ready:
            yield field.required(at, "must specify `addresses` or `notReadyAddresses`")
        for name, addresses in (("addresses", ready), ("notReadyAddresses", not_ready)):
            for a, address in enumerate(addresses):
                yield from _validate_endpoint_address(address, f"{at}.{name}[{a}]")
        for p, port in enumerate(subset.get("ports") or ()):
            yield from _validate_endpoint_port(port, f"{at}.ports[{p}]", len(subset["ports"]) > 1)


def _validate_endpoint_address(address: Document, at: str) -> Errors:
    text = address.get("ip") or ""
    if find_ip(text) is None:
        yield field.invalid(f"{at}.ip", text, IP_MESSAGE)
    if hostname := address.get("hostname"):
        yield from field.each_invalid(f"{at}.hostname", hostname, check_dns1123_label(hostname))
    if (node := address.get("nodeName")) is not None:
        yield from field.each_invalid(f"{at}.nodeName", node, check_dns1123_subdomain(node))
    yield from field.each_invalid(f"{at}.ip", text, check_usable_ip(text))


def _validate_endpoint_port(port: Document, at: str, needs_name: bool) -> Errors:
    name = port.get("name") or ""
    if needs_name and not name:
        yield field.required(f"{at}.name")
    elif name:
        yield from field.each_invalid(f"{at}.name", name, check_dns1123_label(name))
    number = port.get("port") or 0
    if not 1 <= number <= 65535:
        yield field.invalid(f"{at}.port", number, PORT_RANGE)
    protocol = port.get("protocol") or "TCP"
    if protocol not in PROTOCOLS:
        yield field.not_supported(f"{at}.protocol", protocol, PROTOCOLS)
    if (application := port.get("appProtocol")) is not None:
        yield from field.each_invalid(f"{at}.appProtocol", application, check_label_key(application))
