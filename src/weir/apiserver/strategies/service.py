"""Services: an address from the cluster's range.

Spec: apiserver.md 5.2 (Service). Addresses lie in 10.0.0.0/16 and are taken in a scattered order, so that a
deleted service's address is not the next one's. What is in use is read from the stored services.
"""

from __future__ import annotations

import ipaddress
import zlib

from weir.apiserver.strategies.strategy import Context, Document, Strategy
from weir.objects.kinds import Kind

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
        spec.setdefault("ipFamilyPolicy", "SingleStack")

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


def used_addresses(services: list[Document]) -> set[str]:
    """Return every cluster address the services hold."""
    return {
        address
        for service in services
        for address in (service.get("spec") or {}).get("clusterIPs") or ()
        if address != "None"
    }


def free_address(metadata: Document, used: set[str]) -> str:
    """Return an address nobody uses; where the search starts depends on the service's name."""
    size = RANGE.num_addresses - 2
    start = zlib.crc32(f"{metadata.get('namespace')}/{metadata.get('name')}".encode()) % size
    for step in range(size):
        address = str(RANGE[1 + (start + step) % size])
        if address not in used:
            return address
    raise ValueError("the service address range is full")
