"""Validation of Ingress, IngressClass, NetworkPolicy, ServiceCIDR and IPAddress.

An update of an Ingress may keep secret names and wildcard-host backends that were invalid before; a CIDR that the
stored NetworkPolicy already has is accepted as written. Networks and addresses of ServiceCIDR and IPAddress must be in
canonical form. Weir routes no traffic and enforces no policy; controllers of the user's may.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from weir.fields import field
from weir.fields.addresses import (
    check_canonical_cidr,
    check_canonical_ip,
    check_cidr,
    check_ip,
    find_ip,
    find_sloppy_network,
)
from weir.fields.field import Context, Document, Enum, Errors
from weir.fields.meta import IMMUTABLE, validate_meta
from weir.validate.numbers import PORT_RANGE
from weir.validate.selectors import is_sound, validate_label_selector
from weir.values.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_domain_prefixed_path,
    check_path_segment,
    check_port_name,
    check_wildcard_subdomain,
)

CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
MAX_CONTROLLER_BYTES: Final = 250
NOT_AN_ADDRESS: Final = "must be a DNS name, not an IP address"
_NEVER_WITHIN: Final = ("//", "/./", "/../", "%2f", "%2F")
_NEVER_AT_THE_END: Final = ("/..", "/.")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_SCOPES: Final = ("Cluster", "Namespace")


def validate_ingress(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an Ingress."""
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        yield from _validate_addresses(new, old)
        return
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    yield from _validate_spec(
        spec,
        any_secret=any(_check_secret(entry) for entry in before.get("tls") or ()),
        any_wildcard=any(
            "*" in (rule.get("host") or "") and next(_validate_paths(rule, ""), None) is not None
            for rule in before.get("rules") or ()
        ),
    )
    annotations, name = new["metadata"].get("annotations") or {}, spec.get("ingressClassName")
    if old is None and name is not None and annotations.get(CLASS_ANNOTATION, name) != name:
        detail = "must match `ingressClassName` when both are specified"
        yield field.invalid(f"annotations.{CLASS_ANNOTATION}", annotations[CLASS_ANNOTATION], detail)


def _validate_spec(spec: Document, *, any_secret: bool, any_wildcard: bool) -> Errors:
    rules, backend = spec.get("rules"), spec.get("defaultBackend")
    if not rules and backend is None:
        yield field.invalid("spec", rules, "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _validate_backend(backend, "spec.defaultBackend")
    for i, rule in enumerate(rules or ()):
        host = rule.get("host") or ""
        if host:
            yield from _validate_rule_host(host, f"spec.rules[{i}].host")
        if "*" not in host or not any_wildcard:
            yield from _validate_paths(rule, f"spec.rules[{i}]")
    for i, entry in enumerate(spec.get("tls") or ()):
        yield from field.each_well_formed(f"spec.tls[{i}].hosts", entry.get("hosts"), _check_host)
        if not any_secret:
            messages = _check_secret(entry)
            yield from field.each_invalid(f"spec.tls[{i}].secretName", entry.get("secretName"), messages)
    yield from field.well_formed(
        "spec.ingressClassName", spec.get("ingressClassName"), check_dns1123_subdomain
    )


def _check_host(host: str) -> tuple[str, ...]:
    return check_wildcard_subdomain(host) if "*" in host else check_dns1123_subdomain(host)


def _check_secret(entry: Document) -> tuple[str, ...]:
    name = entry.get("secretName")
    return check_dns1123_subdomain(name) if name else ()


def _validate_rule_host(host: str, at: str) -> Errors:
    if find_ip(host) is not None:
        yield field.invalid(at, host, NOT_AN_ADDRESS)
    yield from field.each_invalid(at, host, _check_host(host))


def _validate_paths(rule: Document, at: str) -> Errors:
    http = rule.get("http")
    if http is None:
        return
    yield from field.present(f"{at}.http.paths", http.get("paths"))
    yield from field.each(_validate_path, http.get("paths"), f"{at}.http.paths")


def _validate_path(entry: Document, at: str) -> Errors:
    kind, path = entry.get("pathType"), entry.get("path") or ""
    if kind is None:
        yield field.required(f"{at}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield field.not_supported(f"{at}.pathType", kind, _PATH_TYPES)
    elif (path or kind != "ImplementationSpecific") and not path.startswith("/"):
        yield field.invalid(f"{at}.path", path, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _NEVER_WITHIN:
            if part in path:
                yield field.invalid(f"{at}.path", path, f"must not contain '{part}'")
        for part in _NEVER_AT_THE_END:
            if path.endswith(part):
                yield field.invalid(f"{at}.path", path, f"cannot end with '{part}'")
    yield from _validate_backend(entry.get("backend") or {}, f"{at}.backend")


def _validate_backend(backend: Document, at: str) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield field.invalid(at, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _validate_reference(resource, f"{at}.resource")
    elif service is not None:
        yield from _validate_service_backend(service, at)
    else:
        yield field.invalid(at, "", "resource or service backend is required")


def _validate_service_backend(service: Document, at: str) -> Errors:
    yield from field.required_well_formed(
        f"{at}.service.name", service.get("name") or "", check_dns1123_label
    )
    port = service.get("port") or {}
    port_name, number = port.get("name"), port.get("number")
    if port_name and number:
        yield field.invalid(at, "", "cannot set both port name & port number")
    elif port_name:
        yield from field.each_invalid(f"{at}.service.port.name", port_name, check_port_name(port_name))
    elif number:
        if not 0 < number < 65536:
            yield field.invalid(f"{at}.service.port.number", number, PORT_RANGE)
    else:
        yield field.required(at, "port name or number is required")


def _validate_reference(reference: Document, at: str) -> Errors:
    """Yield what is wrong with a reference to an object of any kind."""
    yield from field.well_formed(f"{at}.apiGroup", reference.get("apiGroup"), check_dns1123_subdomain)
    for member in ("kind", "name"):
        yield from field.required_well_formed(
            f"{at}.{member}", reference.get(member) or "", check_path_segment
        )


def _validate_addresses(new: Document, old: Document | None) -> Errors:
    """Yield what is wrong with where the load balancer says it is."""
    before = {entry.get("ip") for entry in _balancer(old or {})}
    for i, entry in enumerate(_balancer(new)):
        at = f"status.loadBalancer.ingress[{i}]"
        address, host = entry.get("ip"), entry.get("hostname")
        if address and address not in before:
            yield from field.each_invalid(f"{at}.ip", address, check_ip(address))
        if host:
            yield from field.each_invalid(f"{at}.hostname", host, check_dns1123_subdomain(host))
            if find_ip(host) is not None:
                yield field.invalid(f"{at}.hostname", host, NOT_AN_ADDRESS)


def _balancer(ingress: Document) -> list[Document]:
    return ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def validate_ingress_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an IngressClass."""
    spec = new.get("spec") or {}
    yield from field.settle(_validate_class(new, old, context), _declared(spec.get("parameters")))


def _validate_class(new: Document, old: Document | None, context: Context) -> Errors:
    yield from validate_meta(new, old, context)
    spec, at = new.get("spec") or {}, "spec.controller"
    controller = spec.get("controller") or ""
    if old is not None and controller != ((old.get("spec") or {}).get("controller") or ""):
        yield field.invalid(at, controller, IMMUTABLE)
    yield from field.short_enough(at, controller, MAX_CONTROLLER_BYTES)
    if not controller:
        yield field.required(at)
    else:
        for part, message in check_domain_prefixed_path(controller):
            yield field.invalid(at, part, message)
    parameters = spec.get("parameters")
    if parameters is not None:
        for error in _validate_reference(parameters, "spec.parameters"):
            yield from field.covered([error]) if error.type == field.required("").type else [error]
        yield from _validate_scope(parameters, context)


def _validate_scope(parameters: Document, context: Context) -> Errors:
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        if not context.raw:
            yield field.required("spec.parameters.scope")
    elif scope not in _SCOPES:
        yield field.not_supported("spec.parameters.scope", str(Enum(scope)), _SCOPES)
    elif scope == "Cluster":
        if namespace is not None:
            yield field.forbidden("spec.parameters.namespace", "`parameters.scope` is set to 'Cluster'")
    elif namespace is None:
        yield field.required("spec.parameters.namespace", "`parameters.scope` is set to 'Namespace'")
    else:
        yield from field.each_invalid("spec.parameters.namespace", namespace, check_dns1123_label(namespace))


def _declared(parameters: Document | None) -> Errors:
    for member in ("kind", "name"):
        if parameters is not None and not parameters.get(member):
            yield field.required(f"spec.parameters.{member}")


# ── NetworkPolicy ─────────────────────────────────────────────────────────────────────────────────────


_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_POLICY_TYPES: Final = ("Ingress", "Egress")
#: rules of a direction, and the field with the other side
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))


def validate_network_policy(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a NetworkPolicy."""
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    kept = {text for _, block in blocks(before) for _, text in _networks(block)}
    # A selector that was broken before may stay so; label keys are checked all the same upstream, and so here.
    handwritten = _validate_policy(
        new, old, context, spec, kept, lenient=not is_sound(before.get("podSelector"))
    )
    declared = (field.required(f"{at}.cidr") for at, block in blocks(spec) if not block.get("cidr"))
    yield from field.settle(handwritten, declared)


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


def _validate_policy(
    new: Document, old: Document | None, context: Context, spec: Document, kept: set[str], *, lenient: bool
) -> Errors:
    yield from validate_meta(new, old, context)
    yield from _validate_selector(spec.get("podSelector"), "spec.podSelector", lenient)
    for direction, side in _DIRECTIONS:
        for i, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{i}]"
            yield from field.each(_validate_policy_port, rule.get("ports"), f"{at}.ports")
            yield from field.each(_validate_peer, rule.get(side), f"{at}.{side}", kept, lenient)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_POLICY_TYPES):
        yield field.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for i, kind in enumerate(types):
        if kind not in _POLICY_TYPES:
            yield field.not_supported(f"spec.policyTypes[{i}]", kind, _POLICY_TYPES)


def _validate_selector(selector: Document | None, at: str, lenient: bool) -> Errors:
    for error in validate_label_selector(selector, at):
        if not (lenient and ".values[" in error.field):
            yield error


def _validate_policy_port(port: Document, at: str) -> Errors:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    yield from field.one_of(f"{at}.protocol", protocol, _PROTOCOLS)
    if number is None:
        if end is not None:
            yield field.invalid(f"{at}.endPort", end, "may not be specified when `port` is not specified")
    elif isinstance(number, int):
        if not 0 < number < 65536:
            yield field.invalid(f"{at}.port", number, PORT_RANGE)
        if end is not None:
            if end < number:
                yield field.invalid(f"{at}.endPort", end, "must be greater than or equal to `port`")
            if not 0 < end < 65536:
                yield field.invalid(f"{at}.endPort", end, PORT_RANGE)
    else:
        if end is not None:
            yield field.invalid(f"{at}.endPort", end, "may not be specified when `port` is non-numeric")
        yield from field.each_invalid(f"{at}.port", number, check_port_name(number))


def _validate_peer(peer: Document, at: str, kept: set[str], lenient: bool) -> Errors:
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        yield from _validate_selector(peer[name], f"{at}.{name}", lenient)
    block = peer.get("ipBlock")
    if block is not None:
        yield from _validate_block(block, f"{at}.ipBlock", kept)
        if selectors:
            yield field.forbidden(at, "may not specify both ipBlock and another peer")
    elif not selectors:
        yield field.required(at, "must specify a peer")


def _validate_block(block: Document, at: str, kept: set[str]) -> Errors:
    whole: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    for member, text in _networks(block):
        if member == "cidr" and not text:
            yield from field.covered([field.required(f"{at}.cidr")])
            return
        if text not in kept:
            yield from field.each_invalid(f"{at}.{member}", text, check_cidr(text))
        network = find_sloppy_network(text)
        if member == "cidr":
            whole = network
            if whole is None:
                return
        elif network is not None and whole is not None and not _is_strictly_within(network, whole):
            yield field.invalid(f"{at}.{member}", text, "must be a strict subset of `cidr`")


def _is_strictly_within(
    part: ipaddress.IPv4Network | ipaddress.IPv6Network, whole: ipaddress.IPv4Network | ipaddress.IPv6Network
) -> bool:
    same_family = part.version == whole.version
    return same_family and part.prefixlen > whole.prefixlen and part.network_address in whole


# ── ServiceCIDR and IPAddress ─────────────────────────────────────────────────────────────────────────


_CIDRS = "spec.cidrs"
_ONE_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def validate_service_cidr(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with a ServiceCIDR."""
    yield from validate_meta(new, old, context)
    if context.subresource == "status":
        return
    cidrs = (new.get("spec") or {}).get("cidrs") or []
    if old is None:
        yield from _validate_cidrs(cidrs)
        return
    before = (old.get("spec") or {}).get("cidrs") or []
    if len(before) == len(cidrs):
        for i, (was, is_now) in enumerate(zip(before, cidrs, strict=True)):
            if was != is_now:
                yield field.invalid(f"{_CIDRS}[{i}]", is_now, IMMUTABLE)
    elif len(before) == 1 and len(cidrs) == 2:  # the other family may come later
        if before[0] != cidrs[0]:
            yield field.invalid(f"{_CIDRS}[0]", cidrs[0], IMMUTABLE)
        yield from _validate_cidrs(cidrs)
    else:
        yield field.invalid(_CIDRS, cidrs or None, IMMUTABLE)


def _validate_cidrs(cidrs: list[str]) -> Errors:
    if not cidrs:
        yield field.required(_CIDRS, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        # Upstream passes the whole spec, whose field has no JSON name inside the server.
        yield field.invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    yield from field.each_well_formed(_CIDRS, cidrs, check_canonical_cidr)
    networks = [find_sloppy_network(text) for text in cidrs]
    first = networks[0]
    if len(networks) == 2 and first and networks[1] and first.version == networks[1].version:
        yield field.invalid(_CIDRS, cidrs, _ONE_EACH)


def validate_ip_address(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an IPAddress."""
    parent = (new.get("spec") or {}).get("parentRef")
    before = ((old or {}).get("spec") or {}).get("parentRef")
    yield from field.settle(
        _validate_address(new, old, context, parent, before), _declared_address(parent, old, before)
    )


def _validate_address(
    new: Document, old: Document | None, context: Context, parent: Document | None, before: Document | None
) -> Errors:
    yield from validate_meta(new, old, context, check_canonical_ip)
    if parent is None:
        yield from field.covered([field.required("spec.parentRef")])
    else:
        yield from field.well_formed(
            "spec.parentRef.group", parent.get("group") or None, check_dns1123_subdomain
        )
        for member in ("resource", "name", "namespace"):
            value = parent.get(member) or ""
            if value:
                yield from field.each_invalid(f"spec.parentRef.{member}", value, check_path_segment(value))
            elif member != "namespace":
                yield from field.covered([field.required(f"spec.parentRef.{member}")])
    if old is not None and parent != before:
        yield from field.covered([field.invalid("spec.parentRef", parent, IMMUTABLE)])


def _declared_address(parent: Document | None, old: Document | None, before: Document | None) -> Errors:
    if old is not None and parent == before:
        return
    if parent is None:
        yield field.required("spec.parentRef")
    if old is not None:
        yield field.invalid("spec.parentRef", None, IMMUTABLE)  # the declared rule shows no value
    elif parent is not None:
        for member in ("resource", "name"):
            yield from field.present(f"spec.parentRef.{member}", parent.get(member))
