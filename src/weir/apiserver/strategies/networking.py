"""Strategies of Ingress, NetworkPolicy, ServiceCIDR and EndpointSlice: status, generation, warnings about addresses."""

from __future__ import annotations

from collections.abc import Iterator

from weir.apiserver.strategies.strategy import Context, Document, Strategy
from weir.objects.kind import Kind
from weir.validate.addresses import address_warnings, network_warnings
from weir.validate.networking.ingress import CLASS_ANNOTATION
from weir.validate.networking.network_policy import blocks


class EndpointSliceStrategy(Strategy):
    """EndpointSlices count changed labels too, because labels say which service they belong to."""

    def counts(self, new: Document, old: Document) -> bool:
        """Return whether the addresses or the labels changed."""
        return super().counts(new, old) or (new["metadata"].get("labels") or {}) != (
            old["metadata"].get("labels") or {}
        )


class IngressStrategy(Strategy):
    """A new Ingress has no address yet."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        super().prepare_create(kind, new, context)
        new["status"] = {"loadBalancer": {}}

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterator[str]:
        annotations = new["metadata"].get("annotations") or {}
        named = (new.get("spec") or {}).get("ingressClassName") is not None
        if old is None and CLASS_ANNOTATION in annotations and not named:
            yield f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        status = new.get("status") or {}
        if old is not None and status != old.get("status"):
            for i, entry in enumerate((status.get("loadBalancer") or {}).get("ingress") or ()):
                if entry.get("ip"):
                    yield from address_warnings(entry["ip"], f"status.loadBalancer.ingress[{i}]")


class NetworkPolicyStrategy(Strategy):
    """What the client should know about the networks of a policy."""

    def warnings(self, kind: Kind, new: Document, old: Document | None = None) -> Iterator[str]:
        for at, block in blocks(new.get("spec") or {}):
            yield from network_warnings(block.get("cidr") or "", f"{at}.cidr")
            for i, text in enumerate(block.get("except") or ()):
                yield from network_warnings(text, f"{at}.except[{i}]")


class ServiceCIDRStrategy(Strategy):
    """The status of a new range is the controllers' to write."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        super().prepare_create(kind, new, context)
        new["status"] = {}
