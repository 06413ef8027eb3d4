"""Table cells of Ingress, IngressClass, IPAddress and ServiceCIDR.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

from typing import Final

from weir.apiserver.admission.default_ingress_class import IS_DEFAULT
from weir.apiserver.printers.values import NONE, Cells, Document, age, at, name_of

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
