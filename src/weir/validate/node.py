"""Validation of Node, on create and update.

Spec: core.md 2.8 "Node taints", apiserver.md 13 (providerID, podCIDRs, status.capacity). Taints are reported under
`metadata.taints`; a changed providerID prints no value.
"""

from __future__ import annotations

from typing import Final

from weir.validate.addresses import CIDR_MESSAGE, find_network
from weir.validate.context import Context
from weir.validate.field import Document, Errors, duplicate, forbidden, internal, invalid
from weir.validate.meta import validate_meta
from weir.validate.resources import validate_amount
from weir.validate.taints import validate_taints

PROVIDER_CHANGED: Final = "field cannot be modified once set"
PROVIDER_CLEARED: Final = "field cannot be cleared once set"
CIDR_CHANGED: Final = 'node updates may not change podCIDR except from "" to valid'
ONE_PER_FAMILY: Final = "may specify no more than one CIDR for each IP family"


def validate_node(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a write of a node."""
    spec = new.get("spec") or {}
    yield from validate_meta(new, old, context)
    if old is None:
        yield from validate_taints(spec.get("taints") or [])
        yield from _validate_amounts(new.get("status") or {})
        yield from _validate_networks(spec)
        return
    before = old.get("spec") or {}
    yield from validate_taints(spec.get("taints") or [])
    if context.subresource == "status":
        yield from _validate_status(new.get("status") or {})
    yield from _validate_update(spec, before)


def _networks(spec: Document) -> list[str]:
    listed: list[str] = spec.get("podCIDRs") or []
    return listed or ([spec["podCIDR"]] if spec.get("podCIDR") else [])


def _validate_networks(spec: Document) -> Errors:
    networks = _networks(spec)
    for i, text in enumerate(networks):
        if find_network(text) is None:
            yield invalid(f"spec.podCIDRs[{i}]", text, CIDR_MESSAGE)
    if len(networks) < 2:
        return
    found = [find_network(text) for text in networks]
    for i, (network, text) in enumerate(zip(found, networks, strict=True)):
        if network is None:
            problem = f"invalid CIDR[{i}]: <nil> (invalid CIDR address: {text})"
            yield internal(
                "spec.podCIDRs", f"invalid PodCIDRs. failed to check with dual stack with error:{problem}"
            )
            break
    versions = [network.version for network in found if network]
    if len(networks) != 2 or len(versions) != 2 or versions[0] == versions[1]:
        yield invalid("spec.podCIDRs", networks, ONE_PER_FAMILY)


def _validate_status(status: Document) -> Errors:
    seen: list[Document] = []
    for i, address in enumerate(status.get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type") or "", "Address": address.get("address") or ""}
            yield duplicate(f"status.addresses[{i}]", shown)
        seen.append(address)
    yield from _validate_amounts(status)


def _validate_amounts(status: Document) -> Errors:
    for part in ("capacity", "allocatable"):
        amounts = status.get(part) or {}
        for name in sorted(amounts):
            yield from validate_amount(name, amounts[name], f"status.{part}.{name}")


def _validate_update(new: Document, old: Document) -> Errors:
    yield from _validate_networks(new)
    before = _networks(old)
    if before and _networks(new) != before:
        yield forbidden("spec.podCIDRs", CIDR_CHANGED)
    if was := old.get("providerID"):
        now = new.get("providerID") or ""
        if not now:
            yield invalid("spec.providerID", None, PROVIDER_CLEARED)
        elif now != was:
            yield invalid("spec.providerID", None, PROVIDER_CHANGED)
    if (new.get("externalID") or "") != (old.get("externalID") or ""):
        yield forbidden("spec.externalID", "may not be updated")
