"""Strategy of Service: fields per service type.

Spec: apiserver.md 5.2 (Service).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weir.apiserver.strategies.core.service_allocation import (
    EXTERNAL_NAME,
    address_problems,
    allocate_address,
    allocate_ports,
    drop_for_type,
    keep_allocated,
    needs_ports,
    port_problems,
)
from weir.apiserver.strategies.strategy import Context, Strategy
from weir.fields.field import FieldError
from weir.objects.kind import Document, Kind


class ServiceStrategy(Strategy):
    """What the server does to services."""

    def prepare_create(self, kind: Kind, new: Document, context: Context) -> None:
        """Allocate the cluster address and the ports of the nodes."""
        spec = new.setdefault("spec", {})
        new["status"] = {"loadBalancer": {}}
        if spec.get("type") != EXTERNAL_NAME:
            self._allocate(kind, new, context)

    def prepare_update(self, kind: Kind, new: Document, old: Document, context: Context) -> None:
        """Keep what is allocated, allocate what a new type or port needs, and drop what the type no longer has."""
        before, after = old.get("spec") or {}, new.setdefault("spec", {})
        if after != before:
            keep_allocated(after, before)
            if after.get("type") != EXTERNAL_NAME:
                self._allocate(kind, new, context)
            drop_for_type(after, before)
            if before.get("type") == "LoadBalancer" and after.get("type") != "LoadBalancer":
                new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}
        super().prepare_update(kind, new, old, context)

    def _allocate(self, kind: Kind, new: Document, context: Context) -> None:
        spec = new["spec"]
        if not spec.get("clusterIP") or not spec.get("ipFamilies") or not spec.get("ipFamilyPolicy"):
            allocate_address(spec, new["metadata"], context.documents(kind))
        if needs_ports(spec):
            allocate_ports(spec, context.documents(kind))

    def problems(
        self, kind: Kind, new: Document, old: Document | None, context: Context, *, dry_run: bool = False
    ) -> Iterable[FieldError]:
        """Return which of the addresses and ports that a client chose it cannot have.

        In a dry run addresses only have to lie in the range, and ports may be any: as Kubernetes, which allocates none.
        """
        spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
        if spec == before:
            return ()
        others = [] if dry_run else [*_others(context.documents(kind), new["metadata"])]
        return [
            *address_problems(spec, before, others),
            *(() if dry_run else port_problems(spec, before, others)),
        ]

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


def _others(services: Iterable[Document], metadata: Document) -> Iterator[Document]:
    own = (metadata.get("namespace"), metadata.get("name"))
    for service in services:
        if (service["metadata"].get("namespace"), service["metadata"].get("name")) != own:
            yield service
