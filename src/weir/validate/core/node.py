"""Validation of Node, on create and update.

Spec: core.md 2.8 "Node taints", apiserver.md 13 (providerID, podCIDRs, status.capacity). Taints are reported under
`metadata.taints`, although the field is `spec.taints`; a changed providerID prints no value.

Values of taints are not parsed as numbers or versions: a taint that
no comparison can parse is legal and never matches.
"""

from __future__ import annotations

from typing import Final

from weir.fields import field
from weir.fields.addresses import CIDR_MESSAGE, find_network
from weir.fields.field import Context, Document, Errors
from weir.fields.meta import validate_meta
from weir.taints.notation import NODE_EFFECTS
from weir.validate.core.resources import validate_amount
from weir.validate.gonames import go_struct
from weir.values.names import check_label_key, check_label_value

PROVIDER_CHANGED: Final = "field cannot be modified once set"
PROVIDER_CLEARED: Final = "field cannot be cleared once set"
CIDR_CHANGED: Final = 'node updates may not change podCIDR except from "" to valid'
ONE_PER_FAMILY: Final = "may specify no more than one CIDR for each IP family"


NOT_UNIQUE: Final = "taints must be unique by key and effect pair"


def validate_taints(taints: list[Document], at: str = "metadata.taints") -> Errors:
    """Yield what is wrong with the taints of a node; two taints are one when key and effect agree."""
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        if messages := check_label_key(key):
            yield from field.each_invalid(f"{at}[{i}].key", key, messages)
        if messages := check_label_value(value):
            yield field.invalid(f"{at}[{i}].value", value, ";".join(messages))
        yield from field.required_one_of(f"{at}[{i}].effect", effect, NODE_EFFECTS)
        if (key, effect) in seen:
            yield field.duplicate(f"{at}[{i}]", go_struct("Taint", taint), NOT_UNIQUE)
        seen.add((key, effect))


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
            yield field.invalid(f"spec.podCIDRs[{i}]", text, CIDR_MESSAGE)
    if len(networks) < 2:
        return
    found = [find_network(text) for text in networks]
    for i, (network, text) in enumerate(zip(found, networks, strict=True)):
        if network is None:
            problem = f"invalid CIDR[{i}]: <nil> (invalid CIDR address: {text})"
            yield field.internal(
                "spec.podCIDRs", f"invalid PodCIDRs. failed to check with dual stack with error:{problem}"
            )
            break
    versions = [network.version for network in found if network]
    if len(networks) != 2 or len(versions) != 2 or versions[0] == versions[1]:
        yield field.invalid("spec.podCIDRs", networks, ONE_PER_FAMILY)


def _validate_status(status: Document) -> Errors:
    seen: list[Document] = []
    for i, address in enumerate(status.get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type") or "", "Address": address.get("address") or ""}
            yield field.duplicate(f"status.addresses[{i}]", shown)
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
        yield field.forbidden("spec.podCIDRs", CIDR_CHANGED)
    if was := old.get("providerID"):
        now = new.get("providerID") or ""
        if not now:
            yield field.invalid("spec.providerID", None, PROVIDER_CLEARED)
        elif now != was:
            yield field.invalid("spec.providerID", None, PROVIDER_CHANGED)
    if (new.get("externalID") or "") != (old.get("externalID") or ""):
        yield field.forbidden("spec.externalID", "may not be updated")
