"""Allocation of cluster IPs and node ports.

Spec: apiserver.md 5.2 (Service). Addresses are in 10.0.0.0/16 and taken in a scattered order, so that a deleted
service's address is not reused next. What is in use is read from the stored services, so nothing has to be released.
Single stack only.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from weir.fields.addresses import find_ip
from weir.fields.field import FieldError, invalid

Document = dict[str, Any]
NODE_PORTS: Final = range(30000, 32768)
RANGE: Final = ipaddress.ip_network("10.0.0.0/16")
EXTERNAL_NAME: Final = "ExternalName"
ADDRESS_FIELDS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


# ── what the kind of a service needs ────────────────────────────────────────────────────────────


def needs_address(spec: Document) -> bool:
    """Return whether clients reach it by an address of the cluster (`None` is one, too)."""
    return spec.get("type") != EXTERNAL_NAME


def needs_ports(spec: Document) -> bool:
    """Return whether it is reached on the nodes."""
    return spec.get("type") in ("NodePort", "LoadBalancer")


def needs_health_port(spec: Document) -> bool:
    """Return whether a load balancer asks each node for pods of its own."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def reachable(spec: Document) -> bool:
    """Return whether clients outside the cluster reach it."""
    return needs_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def node_ports(spec: Document) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


# ── updates ──────────────────────────────────────────────────────────────────────────────────────


def keep_allocated(after: Document, before: Document) -> None:
    """Give an update what it left out of the allocated values, as a client that does not know them would.

    >>> after = {"type": "NodePort", "ports": [{"name": "a", "port": 81}]}
    >>> keep_allocated(after, {"type": "NodePort", "ports": [{"name": "a", "port": 80, "nodePort": 30001}]})
    >>> after["ports"]
    [{'name': 'a', 'port': 81, 'nodePort': 30001}]
    """
    if needs_address(before) and needs_address(after):
        for field in ADDRESS_FIELDS:
            if field in before and not after.get(field):
                after[field] = before[field]
    changed = after.get("clusterIP") and after.get("clusterIP") != before.get("clusterIP")
    if changed and after.get("clusterIPs") and after["clusterIPs"] == before.get("clusterIPs"):
        after["clusterIPs"] = [after["clusterIP"], *after["clusterIPs"][1:]]  # only the first was meant
    if needs_ports(before) and needs_ports(after):
        kept = node_ports(before) & node_ports(after)
        by_name = {port.get("name"): port.get("nodePort") for port in before.get("ports") or ()}
        for port in after.get("ports") or ():
            had = by_name.get(port.get("name"))
            if had and not port.get("nodePort") and had not in kept:
                port["nodePort"] = had
    if needs_health_port(before) and needs_health_port(after) and not after.get("healthCheckNodePort"):
        _set(after, "healthCheckNodePort", before.get("healthCheckNodePort"))


def drop_for_type(after: Document, before: Document) -> None:
    """Take away what the new type of a service does not have, unless the client changed that, too.

    >>> after = {"type": "ExternalName", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}
    >>> drop_for_type(after, {"type": "ClusterIP", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]})
    >>> after
    {'type': 'ExternalName'}
    """
    if needs_address(before) and not needs_address(after):
        if _same(after, before, "clusterIP") and _same(after, before, "clusterIPs"):
            _drop(after, "clusterIP", "clusterIPs")
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if _same(after, before, field):
                _drop(after, field)
    if needs_ports(before) and not needs_ports(after) and node_ports(before) == node_ports(after):
        for port in after.get("ports") or ():
            _drop(port, "nodePort")
    if needs_health_port(before) and not needs_health_port(after):
        _drop_same(after, before, "healthCheckNodePort")
    if before.get("type") == "LoadBalancer" and after.get("type") != "LoadBalancer":
        _drop_same(after, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if reachable(before) and not reachable(after):
        _drop_same(after, before, "externalTrafficPolicy")


def _set(spec: Document, field: str, value: Any) -> None:
    if value is not None:
        spec[field] = value


def _same(after: Document, before: Document, field: str) -> bool:
    return bool((after.get(field) or None) == (before.get(field) or None))


def _drop(document: Document, *fields: str) -> None:
    for field in fields:
        document.pop(field, None)


def _drop_same(after: Document, before: Document, *fields: str) -> None:
    _drop(after, *(field for field in fields if _same(after, before, field)))


# ── new values ───────────────────────────────────────────────────────────────────────────────────


def allocate_address(spec: Document, metadata: Document, services: Iterable[Document]) -> None:
    """Give a service that needs one its cluster address, and settle the address families."""
    asked = spec.get("clusterIP") or free_address(metadata, used_addresses(services))
    spec["clusterIP"] = asked
    spec["clusterIPs"] = spec.get("clusterIPs") or [asked]
    spec["ipFamilies"] = spec.get("ipFamilies") or ["IPv6" if ":" in asked else "IPv4"]
    # Nothing selects the endpoints of such a service, so they may be of either family.
    anyones = asked == "None" and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anyones else "SingleStack")
    if anyones and spec["ipFamilyPolicy"] != "SingleStack" and len(spec["ipFamilies"]) == 1:
        spec["ipFamilies"] = [*spec["ipFamilies"], *({"IPv4", "IPv6"} - {*spec["ipFamilies"]})]


def allocate_ports(spec: Document, services: Iterable[Document]) -> None:
    """Give every port that is reached on the nodes a free number; protocols of one port share it.

    >>> spec = {"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 30000}]}
    >>> allocate_ports(spec, [])
    >>> [port["nodePort"] for port in spec["ports"]]
    [30001, 30000]
    >>> spec = {"type": "NodePort", "ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}
    >>> allocate_ports(spec, [])
    >>> [port["nodePort"] for port in spec["ports"]]
    [30000, 30000]
    """
    wanted = needs_ports(spec) and (
        spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
    )
    missing = [port for port in spec.get("ports") or () if wanted and not port.get("nodePort")]
    checked = needs_health_port(spec) and not spec.get("healthCheckNodePort")
    if not missing and not checked:
        return
    used = node_ports(spec) | used_ports(services)
    free = (number for number in NODE_PORTS if number not in used)
    of_port = {port.get("port"): port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    for port in missing:
        if port.get("port") not in of_port:
            of_port[port.get("port")] = next(free)
        port["nodePort"] = of_port[port.get("port")]
    if checked:
        spec["healthCheckNodePort"] = next(free)


def used_addresses(services: Iterable[Document]) -> set[str]:
    """Return every cluster address the services hold."""
    return {
        address
        for service in services
        for address in (service.get("spec") or {}).get("clusterIPs") or ()
        if address != "None"
    }


def used_ports(services: Iterable[Document]) -> set[int]:
    """Return every number the services hold on the nodes."""
    used: set[int] = set()
    for service in services:
        spec = service.get("spec") or {}
        used |= node_ports(spec)
        if spec.get("healthCheckNodePort"):
            used.add(spec["healthCheckNodePort"])
    return used


def free_address(metadata: Document, used: set[str]) -> str:
    """Return a free address; where the search starts depends on the service's name."""
    size = RANGE.num_addresses - 2
    start = zlib.crc32(f"{metadata.get('namespace')}/{metadata.get('name')}".encode()) % size
    for step in range(size):
        address = str(RANGE[1 + (start + step) % size])
        if address not in used:
            return address
    raise ValueError("the service address range is full")


# ── requested values ─────────────────────────────────────────────────────────────────────────────


def address_problems(spec: Document, before: Document, others: Iterable[Document]) -> Iterator[FieldError]:
    """Yield which addresses that a client chose cannot be had: they are another's, or of no range."""
    had = set(before.get("clusterIPs") or ())
    used = used_addresses(others)
    for address in (spec.get("clusterIPs") or ()) if needs_address(spec) else ():
        found = find_ip(address)
        if address == "None" or address in had or found is None:
            continue
        why = ""
        if found.version != RANGE.version or found not in RANGE:
            why = "the provided network does not match the current range"
        elif found in (RANGE.network_address, RANGE.broadcast_address):
            why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {RANGE}"
        elif address in used:
            why = "provided IP is already allocated"
        if why:
            yield invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {address}: {why}")


def port_problems(spec: Document, before: Document, others: Iterable[Document]) -> Iterator[FieldError]:
    """Yield which ports of the nodes that a client chose cannot be had: they are another's, or of no range."""
    taken, kept = used_ports(others), node_ports(before)
    for i, port in enumerate((spec.get("ports") or ()) if needs_ports(spec) else ()):
        number = port.get("nodePort")
        if not number or number in kept:
            continue
        if number not in NODE_PORTS:
            valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            why = f"provided port is not in the valid range. The range of valid ports is {valid}"
            yield invalid(f"spec.ports[{i}].nodePort", number, why)
        elif number in taken:
            yield invalid(f"spec.ports[{i}].nodePort", number, "provided port is already allocated")
