"""Validation of NetworkPolicy.

A CIDR that the stored policy already has is accepted as written. Policies are stored but not enforced.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from weir.validate.addresses import check_cidr, find_sloppy_network
from weir.validate.core.probes import PORT_RANGE
from weir.validate.field import (
    Context,
    Document,
    Errors,
    covered,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
    settle,
)
from weir.validate.label_selector import is_sound, validate_label_selector
from weir.validate.meta import validate_meta
from weir.values.names import check_port_name

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TYPES: Final = ("Ingress", "Egress")
#: rules of a direction, and the field with the other side
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))


def validate_network_policy(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a NetworkPolicy."""
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    kept = {text for _, block in blocks(before) for _, text in _networks(block)}
    # A selector that was broken before may stay so; label keys are checked all the same upstream, and so here.
    handwritten = _validate(new, old, context, spec, kept, lenient=not is_sound(before.get("podSelector")))
    declared = (required(f"{at}.cidr") for at, block in blocks(spec) if not block.get("cidr"))
    yield from settle(handwritten, declared)


def blocks(spec: Document) -> Iterator[tuple[str, Document]]:
    """Yield every block of addresses of a policy with its place."""
    for direction, side in _DIRECTIONS:
        for i, rule in enumerate(spec.get(direction) or ()):
            for k, peer in enumerate(rule.get(side) or ()):
                if peer.get("ipBlock") is not None:
                    yield f"spec.{direction}[{i}].{side}[{k}].ipBlock", peer["ipBlock"]


def _networks(block: Document) -> Iterator[tuple[str, str]]:
    """Yield the networks of a block, each with its field."""
    yield "cidr", block.get("cidr") or ""
    for i, text in enumerate(block.get("except") or ()):
        yield f"except[{i}]", text


def _validate(
    new: Document, old: Document | None, context: Context, spec: Document, kept: set[str], *, lenient: bool
) -> Errors:
    yield from validate_meta(new, old, context)
    yield from _validate_selector(spec.get("podSelector"), "spec.podSelector", lenient)
    for direction, side in _DIRECTIONS:
        for i, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{i}]"
            for k, port in enumerate(rule.get("ports") or ()):
                yield from _validate_port(port, f"{at}.ports[{k}]")
            for k, peer in enumerate(rule.get(side) or ()):
                yield from _validate_peer(peer, f"{at}.{side}[{k}]", kept, lenient)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_TYPES):
        yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for i, kind in enumerate(types):
        if kind not in _TYPES:
            yield not_supported(f"spec.policyTypes[{i}]", kind, _TYPES)


def _validate_selector(selector: Document | None, at: str, lenient: bool) -> Errors:
    for error in validate_label_selector(selector, at):
        if not (lenient and ".values[" in error.field):
            yield error


def _validate_port(port: Document, at: str) -> Errors:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported(f"{at}.protocol", protocol, _PROTOCOLS)
    if number is None:
        if end is not None:
            yield invalid(f"{at}.endPort", end, "may not be specified when `port` is not specified")
    elif isinstance(number, int):
        if not 0 < number < 65536:
            yield invalid(f"{at}.port", number, PORT_RANGE)
        if end is not None:
            if end < number:
                yield invalid(f"{at}.endPort", end, "must be greater than or equal to `port`")
            if not 0 < end < 65536:
                yield invalid(f"{at}.endPort", end, PORT_RANGE)
    else:
        if end is not None:
            yield invalid(f"{at}.endPort", end, "may not be specified when `port` is non-numeric")
        yield from each_invalid(f"{at}.port", number, check_port_name(number))


def _validate_peer(peer: Document, at: str, kept: set[str], lenient: bool) -> Errors:
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        yield from _validate_selector(peer[name], f"{at}.{name}", lenient)
    block = peer.get("ipBlock")
    if block is not None:
        yield from _validate_block(block, f"{at}.ipBlock", kept)
        if selectors:
            yield forbidden(at, "may not specify both ipBlock and another peer")
    elif not selectors:
        yield required(at, "must specify a peer")


def _validate_block(block: Document, at: str, kept: set[str]) -> Errors:
    whole: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    for field, text in _networks(block):
        if field == "cidr" and not text:
            yield from covered([required(f"{at}.cidr")])
            return
        if text not in kept:
            yield from each_invalid(f"{at}.{field}", text, check_cidr(text))
        network = find_sloppy_network(text)
        if field == "cidr":
            whole = network
            if whole is None:
                return
        elif network is not None and whole is not None and not _is_strictly_within(network, whole):
            yield invalid(f"{at}.{field}", text, "must be a strict subset of `cidr`")


def _is_strictly_within(
    part: ipaddress.IPv4Network | ipaddress.IPv6Network, whole: ipaddress.IPv4Network | ipaddress.IPv6Network
) -> bool:
    same_family = part.version == whole.version
    return same_family and part.prefixlen > whole.prefixlen and part.network_address in whole
