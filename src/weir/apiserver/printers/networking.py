"""Table cells of networking.k8s.io and discovery.k8s.io."""

from __future__ import annotations

from typing import Final

from weir.apiserver.admission.default_ingress_class import IS_DEFAULT
from weir.apiserver.printers.cells import NONE, UNSET, Document, at, first_of, name_of

_SHOWN: Final = 3


def hosts(ingress: Document, now: float) -> str:
    return hosts_text(at(ingress, "spec", "rules") or [])


def hosts_text(rules: list[Document]) -> str:
    """Return the first hosts; of the rest it says how many rules there are, with a host or without.

    >>> hosts_text([]), hosts_text([{"host": "a"}, {}, {"host": "b"}, {"host": "c"}]), hosts_text([{"host": "a"}] * 5)
    ('*', 'a,b,c', 'a,a,a + 2 more...')
    """
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _SHOWN:
            return f"{','.join(shown)} + {len(rules) - _SHOWN} more..."
        if rule.get("host"):
            shown.append(rule["host"])
    return ",".join(shown) or "*"


def ingress_addresses(ingress: Document, now: float) -> str:
    entries = at(ingress, "status", "loadBalancer", "ingress") or ()
    return ",".join(sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""}))


def ingress_ports(ingress: Document, now: float) -> str:
    return "80, 443" if at(ingress, "spec", "tls") else "80"


def class_name(ingress_class: Document, now: float) -> str:
    """Return the name of an IngressClass, marked when it is the default."""
    marked = at(ingress_class, "metadata", "annotations", IS_DEFAULT) == "true"
    return name_of(ingress_class) + (" (default)" if marked else "")


def class_parameters(ingress_class: Document, now: float) -> str:
    """Return the parameters of an IngressClass, as `kind.group/name`."""
    parameters = at(ingress_class, "spec", "parameters")
    if parameters is None:
        return NONE
    kind, group = parameters.get("kind") or "", parameters.get("apiGroup")
    return f"{kind if group is None else f'{kind}.{group}'}/{parameters.get('name') or ''}"


def parent(address: Document, now: float) -> str:
    """Return the owner of an IPAddress, as `resource.group/namespace/name`."""
    reference = at(address, "spec", "parentRef")
    if reference is None:
        return NONE
    group, resource, namespace = (reference.get(field) or "" for field in ("group", "resource", "namespace"))
    name = reference.get("name") or ""
    return f"{(f'{resource}.{group}' if group else resource).lower()}/{f'{namespace}/{name}' if namespace else name}"


def slice_ports(endpoint_slice: Document, now: float) -> str:
    ports = [str(port.get("port", "*")) for port in endpoint_slice.get("ports") or ()]
    return first_of(ports, _SHOWN) or UNSET


def slice_addresses(endpoint_slice: Document, now: float) -> str:
    endpoints = endpoint_slice.get("endpoints") or ()
    addresses = [address for endpoint in endpoints for address in endpoint.get("addresses") or ()]
    return first_of(addresses, _SHOWN) or UNSET
