"""Table cells of Service, Endpoints, EndpointSlice, Ingress, IngressClass, IPAddress and ServiceCIDR.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

from typing import Final

from weir.apiserver.admission.default_ingress_class import IS_DEFAULT
from weir.apiserver.printers.values import (
    NONE,
    UNSET,
    Cells,
    Document,
    age,
    at,
    label_text,
    name_of,
)

_HOSTS: Final = 3


def ingress_cells(found: Document, now: float) -> Cells:
    entries = at(found, "status", "loadBalancer", "ingress") or ()
    name = at(found, "spec", "ingressClassName")
    return [
        name_of(found),
        NONE if name is None else name,
        hosts_text(at(found, "spec", "rules") or []),
        ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in entries} - {""})),
        "80, 443" if at(found, "spec", "tls") else "80",
        age(found, now),
    ]


def hosts_text(rules: list[Document]) -> str:
    """Return the first hosts; of the rest it says how many rules there are, with a host or without.

    >>> hosts_text([]), hosts_text([{"host": "a"}, {}, {"host": "b"}, {"host": "c"}]), hosts_text([{"host": "a"}] * 5)
    ('*', 'a,b,c', 'a,a,a + 2 more...')
    """
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _HOSTS:
            return f"{','.join(shown)} + {len(rules) - _HOSTS} more..."
        if rule.get("host"):
            shown.append(rule["host"])
    return ",".join(shown) or "*"


def ingress_class_cells(found: Document, now: float) -> Cells:
    parameters, shown = at(found, "spec", "parameters"), NONE
    if parameters is not None:
        group = parameters.get("apiGroup")
        shown = parameters.get("kind") or ""
        shown = f"{shown if group is None else f'{shown}.{group}'}/{parameters.get('name') or ''}"
    marked = at(found, "metadata", "annotations", IS_DEFAULT) == "true"
    return [
        name_of(found) + (" (default)" if marked else ""),
        at(found, "spec", "controller") or "",
        shown,
        age(found, now),
    ]


def ip_address_cells(found: Document, now: float) -> Cells:
    parent = at(found, "spec", "parentRef")
    if parent is None:
        return [name_of(found), NONE, age(found, now)]
    group, resource, namespace = (parent.get(field) or "" for field in ("group", "resource", "namespace"))
    of = (f"{resource}.{group}" if group else resource).lower()
    where = f"{namespace}/{parent.get('name') or ''}" if namespace else parent.get("name") or ""
    return [name_of(found), f"{of}/{where}", age(found, now)]


def service_cidr_cells(found: Document, now: float) -> Cells:
    return [name_of(found), ",".join(at(found, "spec", "cidrs") or ()), age(found, now)]


def service_cells(found: Document, now: float) -> Cells:
    spec = found.get("spec") or {}
    kind = spec.get("type") or ""
    ingress = [i.get("ip") or i.get("hostname") for i in at(found, "status", "loadBalancer", "ingress") or ()]
    external = list(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        outside = ",".join([*filter(None, ingress), *external]) or "<pending>"
    elif kind == "ExternalName":
        outside = spec.get("externalName") or ""
    else:
        outside = ",".join(external) or NONE
    ports = ",".join(
        f"{port.get('port')}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol')}"
        for port in spec.get("ports") or ()
    )
    inside = ",".join((spec.get("clusterIPs") or ())[:1]) or spec.get("clusterIP") or NONE
    return [
        name_of(found),
        kind,
        inside,
        outside,
        ports or NONE,
        age(found, now),
        label_text(spec.get("selector")),
    ]


def endpoints_cells(found: Document, now: float) -> Cells:
    texts = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in found.get("subsets") or ()
        for port in (subset.get("ports") or ({"port": 0},))
        for address in subset.get("addresses") or ()
    ]
    shown = ",".join(texts[:3]) + (f" + {len(texts) - 3} more..." if len(texts) > 3 else "")
    return [name_of(found), shown or NONE, age(found, now)]


def endpoint_slice_cells(found: Document, now: float) -> Cells:
    ports = [str(port.get("port", "*")) for port in found.get("ports") or ()]
    addresses = [a for endpoint in found.get("endpoints") or () for a in endpoint.get("addresses") or ()]

    def short(values: list[str]) -> str:
        if not values:
            return UNSET
        more = f" + {len(values) - 3} more..." if len(values) > 3 else ""
        return ",".join(values[:3]) + more

    return [name_of(found), found.get("addressType") or "", short(ports), short(addresses), age(found, now)]
