"""Services: an address from the cluster's range.

Spec: apiserver.md 5.2 (Service). Addresses lie in 10.0.0.0/16 and are taken in a scattered order, so that a
deleted service's address is not the next one's. What is in use is read from the stored services.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterator

from weir.apiserver.strategies.strategy import Context, Document, Strategy
from weir.objects.kinds import Kind

NODE_PORTS = range(30000, 32768)
RANGE = ipaddress.ip_network("10.0.0.0/16")


class ServiceStrategy(Strategy):
    """What the server does to services."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Allocate the cluster address and settle the address families."""
        spec = new.setdefault("spec", {})
        new["status"] = {"loadBalancer": {}}
        if spec.get("type") == "ExternalName":
            return
        asked = spec.get("clusterIP")
        if not asked:
            asked = free_address(new["metadata"], used_addresses(context.documents(kind)))
        spec["clusterIP"] = asked
        spec.setdefault("clusterIPs", [asked])
        spec.setdefault("ipFamilies", ["IPv6" if ":" in asked else "IPv4"])
        # Nothing selects the endpoints of such a service, so they may be of either family.
        anyones = asked == "None" and not spec.get("selector")
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anyones else "SingleStack")
        if anyones and spec["ipFamilyPolicy"] != "SingleStack" and len(spec["ipFamilies"]) == 1:
            spec["ipFamilies"] = [*spec["ipFamilies"], *({"IPv4", "IPv6"} - {*spec["ipFamilies"]})]
        allocate_ports(spec, context.documents(kind))

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """An update that leaves the allocated address out keeps it."""
        before, after = old.get("spec") or {}, new.setdefault("spec", {})
        changed = after.get("clusterIP") and after.get("clusterIP") != before.get("clusterIP")
        if changed and after.get("clusterIPs") and after["clusterIPs"] == before.get("clusterIPs"):
            after["clusterIPs"] = [after["clusterIP"], *after["clusterIPs"][1:]]  # only the first was meant
        if after.get("type") != "ExternalName" and before.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if field in before and not after.get(field):
                    after[field] = before[field]
        elif after.get("type") != "ExternalName":
            self.prepare_create(kind, new, context)
            new["status"] = old.get("status") or {"loadBalancer": {}}
        super().prepare_update(kind, new, old, context)

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterator[str]:
        """Yield the settings that do nothing for a service of its type, or will not for long."""
        spec = new.get("spec") or {}
        outside = bool(spec.get("externalIPs"))
        headless, named = spec.get("clusterIP") == "None", spec.get("type") == "ExternalName"
        if headless:
            for field in ("loadBalancerIP", "externalIPs"):
                if spec.get(field):
                    yield f"spec.{field} is ignored for headless services"
            if spec.get("sessionAffinity", "None") != "None":
                yield "spec.SessionAffinity is ignored for headless services"
        elif outside and not named:
            yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
        if named and outside:
            yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
        if not named and spec.get("externalName"):
            yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
        if spec.get("trafficDistribution") == "PreferClose":
            yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def allocate_ports(spec: Document, services: list[Document]) -> None:
    """Give every port that is reached on the nodes a free number.

    >>> spec = {"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "nodePort": 30000}]}
    >>> allocate_ports(spec, [])
    >>> [port["nodePort"] for port in spec["ports"]]
    [30001, 30000]
    """
    balanced = spec.get("type") == "LoadBalancer"
    wanted = spec.get("type") == "NodePort" or (
        balanced and spec.get("allocateLoadBalancerNodePorts") is not False
    )
    checked = balanced and spec.get("externalTrafficPolicy") == "Local"
    if not wanted and not checked:
        return
    used = {port.get("nodePort") for each in [spec] for port in each.get("ports") or ()}
    for service in services:
        other = service.get("spec") or {}
        used |= {port.get("nodePort") for port in other.get("ports") or ()}
        used.add(other.get("healthCheckNodePort"))
    free = (number for number in NODE_PORTS if number not in used)
    for port in (spec.get("ports") or ()) if wanted else ():
        if not port.get("nodePort"):
            port["nodePort"] = next(free)
    if checked and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = next(free)


def used_addresses(services: list[Document]) -> set[str]:
    """Return every cluster address the services hold."""
    return {
        address
        for service in services
        for address in (service.get("spec") or {}).get("clusterIPs") or ()
        if address != "None"
    }


def free_address(metadata: Document, used: set[str]) -> str:
    """Return a free address; where the search starts depends on the service's name."""
    size = RANGE.num_addresses - 2
    start = zlib.crc32(f"{metadata.get('namespace')}/{metadata.get('name')}".encode()) % size
    for step in range(size):
        address = str(RANGE[1 + (start + step) % size])
        if address not in used:
            return address
    raise ValueError("the service address range is full")
