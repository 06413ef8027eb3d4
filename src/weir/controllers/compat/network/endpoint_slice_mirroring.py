"""Mirrors Endpoints of Services without a selector into EndpointSlices.

One slice per set of ports and address family, with at most a thousand addresses. Endpoints with the label
`endpointslice.kubernetes.io/skip-mirror` and leader election locks are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Final

from weir.controllers.compat.network.endpoint_slices import (
    MANAGED_BY,
    SERVICE_NAME,
    Endpoint,
    Group,
    group_of,
)
from weir.controllers.compat.network.service_endpoints import ANNOTATION, Port, ServiceKey
from weir.controllers.runtime.actions import Action, Create, Delete, Document, Patch, Record
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.controllers.workloads.pod_control import about, owner_reference
from weir.objects.kind import Kind
from weir.objects.kinds import ENDPOINT_SLICES, ENDPOINTS, SERVICES

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
NOT_COPIED: Final = (ANNOTATION, "kubectl.kubernetes.io/last-applied-configuration")
MOST: Final = 1000


class EndpointMirror(Controller):
    """The EndpointSlice mirroring controller."""

    name = "endpointslice-mirroring-controller"
    event_source = "endpoint-slice-mirroring-controller"
    kinds: Sequence[Kind] = (SERVICES, ENDPOINTS, ENDPOINT_SLICES)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ServiceKey]:
        """Yield the Endpoints whose slices may have to change."""
        metadata = (new or old)["metadata"]
        if kind is not ENDPOINT_SLICES:
            yield ServiceKey(metadata["namespace"], metadata["name"])
        elif (labels := metadata.get("labels") or {}).get(MANAGED_BY) == MANAGER and labels.get(SERVICE_NAME):
            yield ServiceKey(metadata["namespace"], labels[SERVICE_NAME])

    def reconcile(self, key: ServiceKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what makes the slices repeat the Endpoints, or takes them away."""
        mine: dict[Group, list[Document]] = {}
        for each in listers.within(ENDPOINT_SLICES, key.namespace):
            labels = each["metadata"].get("labels") or {}
            if (labels.get(MANAGED_BY), labels.get(SERVICE_NAME)) == (MANAGER, key.name):
                mine.setdefault(group_of(each), []).append(each)
        written = listers.get(ENDPOINTS, key.name, key.namespace)
        service = listers.get(SERVICES, key.name, key.namespace)
        mirrored = written is not None and service is not None and _is_mirrored(written, service)
        wanted, skipped = _groups(written) if mirrored else ({}, 0)
        for group, slices in mine.items():
            for each in slices if group not in wanted else slices[1:]:
                metadata = each["metadata"]
                yield Delete(ENDPOINT_SLICES, metadata["name"], metadata["namespace"], metadata["uid"])
        if not mirrored or written["metadata"].get("deletionTimestamp"):
            return
        changed = False
        for group, endpoints in wanted.items():
            document = _slice(written, group, endpoints)
            there = mine.get(group)
            if not there:
                changed = True
                yield Create(ENDPOINT_SLICES, document, key.namespace)
            elif not _same(there[0], document):
                changed = True
                yield Patch(
                    ENDPOINT_SLICES,
                    there[0]["metadata"]["name"],
                    key.namespace,
                    _change(there[0], document),
                    held=True,
                )
        if skipped and changed:
            text = (
                f"A max of {MOST} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{skipped} addresses were skipped"
            )
            yield Record(about(written, ENDPOINTS), "Warning", "TooManyAddressesToMirror", text)


def _is_mirrored(written: Document, service: Document) -> bool:
    metadata = written["metadata"]
    return (
        not service["spec"].get("selector")
        and (metadata.get("labels") or {}).get(SKIP) != "true"
        and LEADER not in (metadata.get("annotations") or {})
    )


def _groups(written: Document) -> tuple[dict[Group, list[Endpoint]], int]:
    """Return the endpoints by address family and ports, and how many had to be left out."""
    groups: dict[Group, list[Endpoint]] = {}
    skipped = 0
    for subset in written.get("subsets") or ():
        ports = tuple(
            sorted(
                Port(p.get("name") or "", p["port"], p.get("protocol") or "TCP", p.get("appProtocol") or "")
                for p in subset.get("ports") or ()
            )
        )
        both = [(each, True) for each in subset.get("addresses") or ()]
        both += [(each, False) for each in subset.get("notReadyAddresses") or ()]
        skipped += max(0, len(both) - MOST)
        for address, ready in both[:MOST]:
            ip = ip_address(address["ip"])
            endpoint: Endpoint = {"addresses": [str(ip)], "conditions": {"ready": ready}}
            endpoint |= {
                name: address[name] for name in ("targetRef", "nodeName", "hostname") if address.get(name)
            }
            groups.setdefault((f"IPv{ip.version}", ports), []).append(endpoint)
    return groups, skipped


def _slice(written: Document, group: Group, endpoints: list[Endpoint]) -> dict[str, Any]:
    metadata, (family, ports) = written["metadata"], group
    annotations = metadata.get("annotations") or {}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": {**(metadata.get("labels") or {}), SERVICE_NAME: metadata["name"], MANAGED_BY: MANAGER},
            "annotations": {key: value for key, value in annotations.items() if key not in NOT_COPIED},
            "ownerReferences": [owner_reference(written, ENDPOINTS)],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [port.document(named=True) for port in ports],
    }


def _same(present: Document, wanted: Document) -> bool:
    def listed(each: Document) -> list[tuple[str, ...]]:
        return sorted(
            (e["addresses"][0], str(sorted(e.items(), key=str))) for e in each.get("endpoints") or ()
        )

    metadata, wanted_metadata = present["metadata"], wanted["metadata"]
    return (
        listed(present) == listed(wanted)
        and (metadata.get("labels") or {}) == wanted_metadata["labels"]
        and (metadata.get("annotations") or {}) == wanted_metadata["annotations"]
    )


def _change(present: Document, wanted: Document) -> dict[str, Any]:
    metadata, wanted_metadata = present["metadata"], wanted["metadata"]
    changes: dict[str, Any] = {"resourceVersion": metadata["resourceVersion"]}
    for name in ("labels", "annotations"):
        gone = {key: None for key in metadata.get(name) or () if key not in wanted_metadata[name]}
        changes[name] = {**gone, **wanted_metadata[name]}
    return {"metadata": changes, "endpoints": wanted["endpoints"]}
