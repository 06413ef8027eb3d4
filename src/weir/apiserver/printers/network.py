"""Table cells of Service, Endpoints and EndpointSlice.

Spec: apiserver.md 11 "Tables", "Cells".
"""

from __future__ import annotations

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
