"""Validation of Service and Endpoints."""

from __future__ import annotations

from typing import Final

from weir.fields import field
from weir.fields.addresses import IP_MESSAGE, check_cidr, check_ip, check_usable_ip, find_ip
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import validate_labels, validate_meta
from weir.validate.numbers import PORT_RANGE, validate_port_reference
from weir.values.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_key,
)

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_TRAFFIC: Final = ("Cluster", "Local")


def validate_service(new: Document, old: Document | None, context: Context) -> Errors:
    """Validation of Service."""
    spec = new.get("spec") or {}
    yield from validate_meta(new, old, context, check_dns1123_label)
    kind = spec.get("type") or "ClusterIP"
    ports = spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if old is not None:
        yield from _validate_address_kept(spec, old.get("spec") or {})
    if not ports and not headless and kind != "ExternalName":
        yield field.required("spec.ports")
    if kind == "ExternalName":
        yield from _validate_external_name(spec)
    yield from _validate_ports(ports, kind)
    if selector := spec.get("selector"):
        yield from validate_labels(selector, "spec.selector")
    yield from _validate_families(spec)
    yield from field.one_of("spec.sessionAffinity", spec.get("sessionAffinity") or None, ("ClientIP", "None"))
    yield from _validate_affinity_timeout(spec)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        messages = check_ip(address) or check_usable_ip(address)
        yield from field.each_invalid(f"spec.externalIPs[{i}]", address, messages)
    yield from field.one_of("spec.type", kind, _TYPES)
    if kind == "LoadBalancer":
        for i, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
            # Upstream writes this field with a capital.
            yield from field.each_invalid(
                f"spec.LoadBalancerSourceRanges[{i}]", text, check_cidr(text.strip())
            )
    elif spec.get("loadBalancerSourceRanges"):
        yield field.forbidden(
            "spec.LoadBalancerSourceRanges", "may only be used when `type` is 'LoadBalancer'"
        )
    reachable = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if spec.get("externalTrafficPolicy") and not reachable:
        detail = "may only be set for externally-accessible services"
        yield field.invalid("spec.externalTrafficPolicy", Enum(spec["externalTrafficPolicy"]), detail)
    for name in ("externalTrafficPolicy", "internalTrafficPolicy"):
        yield from field.one_of(f"spec.{name}", spec.get(name), _TRAFFIC)
    yield from field.one_of("spec.trafficDistribution", spec.get("trafficDistribution"), _DISTRIBUTIONS)
    if spec.get("loadBalancerClass") is not None and kind != "LoadBalancer":
        yield field.forbidden("spec.loadBalancerClass", "may only be used when `type` is 'LoadBalancer'")


def _validate_affinity_timeout(spec: Document) -> Errors:
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = config.get("timeoutSeconds")
    if spec.get("sessionAffinity") == "ClientIP" and seconds is not None and not 0 < seconds <= 86400:
        at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        yield field.invalid(at, seconds, "must be greater than 0 and less than 86400")


def _validate_families(spec: Document) -> Errors:
    """Validation of Service."""
    address, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if not address and addresses:
        yield field.invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
    elif addresses and addresses[0] != address:
        yield field.invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    families = spec.get("ipFamilies") or []
    for i, family in enumerate(families):
        if family not in ("IPv4", "IPv6"):
            yield field.not_supported(f"spec.ipFamilies[{i}]", family, ("IPv4", "IPv6"))
        if family in families[:i]:
            yield field.duplicate(f"spec.ipFamilies[{i}]", Enum(family))
    yield from field.one_of("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), _FAMILY_POLICIES)
    for i, text in enumerate(addresses):
        if text != "None" and find_ip(text) is None:
            yield field.invalid(f"spec.clusterIPs[{i}]", text, IP_MESSAGE)


def _validate_external_name(spec: Document) -> Errors:
    if spec.get("clusterIP"):
        yield field.forbidden("spec.clusterIPs", "may not be set for ExternalName services")
    yield from field.required_well_formed(
        "spec.externalName", (spec.get("externalName") or "").removesuffix("."), check_dns1123_subdomain
    )


def _validate_ports(ports: list[Document], kind: str) -> Errors:
    names: set[str] = set()
    taken: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        at, name = f"spec.ports[{i}]", port.get("name") or ""
        if len(ports) > 1 and not name:
            yield field.required(f"{at}.name")
        elif name:
            yield from field.each_invalid(f"{at}.name", name, check_dns1123_label(name))
            yield from field.unique(name, names, f"{at}.name")
        number = port.get("port") or 0
        yield from field.in_range(f"{at}.port", number, 1, 65535, PORT_RANGE)
        yield from field.one_of(f"{at}.protocol", port.get("protocol") or "TCP", PROTOCOLS)
        if (target := port.get("targetPort")) not in (None, ""):
            yield from validate_port_reference(target, f"{at}.targetPort")
        yield from field.well_formed(f"{at}.appProtocol", port.get("appProtocol"), check_label_key)
        if port.get("nodePort") and kind == "ClusterIP":
            yield field.forbidden(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
    for i, port in enumerate(ports):
        key = (port.get("protocol") or "TCP", port.get("port") or 0)
        if key in taken:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            yield field.duplicate(f"spec.ports[{i}]", shown)
        taken.add(key)


def _validate_address_kept(new: Document, old: Document) -> Errors:
    kinds = {each.get("type") or "ClusterIP" for each in (new, old)}
    before, after = old.get("clusterIP"), new.get("clusterIP")
    if before and "ExternalName" not in kinds and after is not None and after != before:
        yield field.invalid("spec.clusterIPs[0]", [after], "may not change once set")


# ── Endpoints ─────────────────────────────────────────────────────────────────────────────────────────


def validate_endpoints(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with Endpoints."""
    yield from validate_meta(new, old, context)
    for s, subset in enumerate(new.get("subsets") or ()):
        at = f"subsets[{s}]"
        ready, not_ready = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
        if not ready and not not_ready:
            yield field.required(at, "must specify `addresses` or `notReadyAddresses`")
        for name, addresses in (("addresses", ready), ("notReadyAddresses", not_ready)):
            yield from field.each(_validate_endpoint_address, addresses, f"{at}.{name}")
        ports = subset.get("ports") or []
        yield from field.each(_validate_endpoint_port, ports, f"{at}.ports", len(ports) > 1)


def _validate_endpoint_address(address: Document, at: str) -> Errors:
    text = address.get("ip") or ""
    if find_ip(text) is None:
        yield field.invalid(f"{at}.ip", text, IP_MESSAGE)
    yield from field.well_formed(f"{at}.hostname", address.get("hostname") or None, check_dns1123_label)
    yield from field.well_formed(f"{at}.nodeName", address.get("nodeName"), check_dns1123_subdomain)
    yield from field.each_invalid(f"{at}.ip", text, check_usable_ip(text))


def _validate_endpoint_port(port: Document, at: str, needs_name: bool) -> Errors:
    name = port.get("name") or ""
    if needs_name and not name:
        yield field.required(f"{at}.name")
    elif name:
        yield from field.each_invalid(f"{at}.name", name, check_dns1123_label(name))
    number = port.get("port") or 0
    yield from field.in_range(f"{at}.port", number, 1, 65535, PORT_RANGE)
    yield from field.one_of(f"{at}.protocol", port.get("protocol") or "TCP", PROTOCOLS)
    yield from field.well_formed(f"{at}.appProtocol", port.get("appProtocol"), check_label_key)
