"""Validation of Ingress and IngressClass.

An update may keep secret names and wildcard-host backends that were invalid before. Weir routes no traffic; an
ingress controller of the user's may.
"""

from __future__ import annotations

from typing import Final

from weir.validate.addresses import check_ip, find_ip
from weir.validate.core.probes import PORT_RANGE
from weir.validate.field import (
    Context,
    Document,
    Enum,
    Errors,
    covered,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
    settle,
    too_long,
)
from weir.validate.meta import IMMUTABLE, validate_meta
from weir.values.names import (
    byte_length,
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
        yield invalid(f"annotations.{CLASS_ANNOTATION}", annotations[CLASS_ANNOTATION], detail)


def _validate_spec(spec: Document, *, any_secret: bool, any_wildcard: bool) -> Errors:
    rules, backend = spec.get("rules"), spec.get("defaultBackend")
    if not rules and backend is None:
        yield invalid("spec", rules, "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _validate_backend(backend, "spec.defaultBackend")
    for i, rule in enumerate(rules or ()):
        host = rule.get("host") or ""
        if host:
            yield from _validate_rule_host(host, f"spec.rules[{i}].host")
        if "*" not in host or not any_wildcard:
            yield from _validate_paths(rule, f"spec.rules[{i}]")
    for i, entry in enumerate(spec.get("tls") or ()):
        for k, host in enumerate(entry.get("hosts") or ()):
            yield from each_invalid(f"spec.tls[{i}].hosts[{k}]", host, _check_host(host))
        if not any_secret:
            messages = _check_secret(entry)
            yield from each_invalid(f"spec.tls[{i}].secretName", entry.get("secretName"), messages)
    name = spec.get("ingressClassName")
    if name is not None:
        yield from each_invalid("spec.ingressClassName", name, check_dns1123_subdomain(name))


def _check_host(host: str) -> tuple[str, ...]:
    return check_wildcard_subdomain(host) if "*" in host else check_dns1123_subdomain(host)


def _check_secret(entry: Document) -> tuple[str, ...]:
    name = entry.get("secretName")
    return check_dns1123_subdomain(name) if name else ()


def _validate_rule_host(host: str, at: str) -> Errors:
    if find_ip(host) is not None:
        yield invalid(at, host, NOT_AN_ADDRESS)
    yield from each_invalid(at, host, _check_host(host))


def _validate_paths(rule: Document, at: str) -> Errors:
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{at}.http.paths")
    for i, path in enumerate(http.get("paths") or ()):
        yield from _validate_path(path, f"{at}.http.paths[{i}]")


def _validate_path(entry: Document, at: str) -> Errors:
    kind, path = entry.get("pathType"), entry.get("path") or ""
    if kind is None:
        yield required(f"{at}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{at}.pathType", kind, _PATH_TYPES)
    elif (path or kind != "ImplementationSpecific") and not path.startswith("/"):
        yield invalid(f"{at}.path", path, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _NEVER_WITHIN:
            if part in path:
                yield invalid(f"{at}.path", path, f"must not contain '{part}'")
        for part in _NEVER_AT_THE_END:
            if path.endswith(part):
                yield invalid(f"{at}.path", path, f"cannot end with '{part}'")
    yield from _validate_backend(entry.get("backend") or {}, f"{at}.backend")


def _validate_backend(backend: Document, at: str) -> Errors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(at, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _validate_reference(resource, f"{at}.resource")
    elif service is not None:
        yield from _validate_service_backend(service, at)
    else:
        yield invalid(at, "", "resource or service backend is required")


def _validate_service_backend(service: Document, at: str) -> Errors:
    name = service.get("name") or ""
    if not name:
        yield required(f"{at}.service.name")
    else:
        yield from each_invalid(f"{at}.service.name", name, check_dns1123_label(name))
    port = service.get("port") or {}
    port_name, number = port.get("name"), port.get("number")
    if port_name and number:
        yield invalid(at, "", "cannot set both port name & port number")
    elif port_name:
        yield from each_invalid(f"{at}.service.port.name", port_name, check_port_name(port_name))
    elif number:
        if not 0 < number < 65536:
            yield invalid(f"{at}.service.port.number", number, PORT_RANGE)
    else:
        yield required(at, "port name or number is required")


def _validate_reference(reference: Document, at: str) -> Errors:
    """Yield what is wrong with a reference to an object of any kind."""
    group = reference.get("apiGroup")
    if group is not None:
        yield from each_invalid(f"{at}.apiGroup", group, check_dns1123_subdomain(group))
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        if not value:
            yield required(f"{at}.{field}")
        else:
            yield from each_invalid(f"{at}.{field}", value, check_path_segment(value))


def _validate_addresses(new: Document, old: Document | None) -> Errors:
    """Yield what is wrong with where the load balancer says it is."""
    before = {entry.get("ip") for entry in _balancer(old or {})}
    for i, entry in enumerate(_balancer(new)):
        at = f"status.loadBalancer.ingress[{i}]"
        address, host = entry.get("ip"), entry.get("hostname")
        if address and address not in before:
            yield from each_invalid(f"{at}.ip", address, check_ip(address))
        if host:
            yield from each_invalid(f"{at}.hostname", host, check_dns1123_subdomain(host))
            if find_ip(host) is not None:
                yield invalid(f"{at}.hostname", host, NOT_AN_ADDRESS)


def _balancer(ingress: Document) -> list[Document]:
    return ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def validate_ingress_class(new: Document, old: Document | None, context: Context) -> Errors:
    """Yield what is wrong with an IngressClass."""
    spec = new.get("spec") or {}
    yield from settle(_validate_class(new, old, context), _declared(spec.get("parameters")))


def _validate_class(new: Document, old: Document | None, context: Context) -> Errors:
    yield from validate_meta(new, old, context)
    spec, at = new.get("spec") or {}, "spec.controller"
    controller = spec.get("controller") or ""
    if old is not None and controller != ((old.get("spec") or {}).get("controller") or ""):
        yield invalid(at, controller, IMMUTABLE)
    if byte_length(controller) > MAX_CONTROLLER_BYTES:
        yield too_long(at, MAX_CONTROLLER_BYTES)
    if not controller:
        yield required(at)
    else:
        for part, message in check_domain_prefixed_path(controller):
            yield invalid(at, part, message)
    parameters = spec.get("parameters")
    if parameters is not None:
        for error in _validate_reference(parameters, "spec.parameters"):
            yield from covered([error]) if error.type == required("").type else [error]
        yield from _validate_scope(parameters, context)


def _validate_scope(parameters: Document, context: Context) -> Errors:
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        if not context.raw:
            yield required("spec.parameters.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.parameters.scope", str(Enum(scope)), _SCOPES)
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden("spec.parameters.namespace", "`parameters.scope` is set to 'Cluster'")
    elif namespace is None:
        yield required("spec.parameters.namespace", "`parameters.scope` is set to 'Namespace'")
    else:
        yield from each_invalid("spec.parameters.namespace", namespace, check_dns1123_label(namespace))


def _declared(parameters: Document | None) -> Errors:
    for field in ("kind", "name"):
        if parameters is not None and not parameters.get(field):
            yield required(f"spec.parameters.{field}")
