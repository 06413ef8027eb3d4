"""EndpointSlices: those of Services with a selector, and those that mirror the Endpoints of Services without one.

An address stays in its slice of at most a hundred, so that a change of one pod changes one slice; slices are filled
before new ones are created, and an empty one is deleted unless it is the only one of its family. Terminating pods are
listed as such while they serve. With `trafficDistribution`, hints name each ready endpoint's own zone, and with
PreferSameNode its node. Hints in proportion to the zones' CPUs (`service.kubernetes.io/topology-mode`) are not
implemented.

Endpoints are mirrored into one slice per set of ports and address family, with at most a thousand addresses; those with
the label `endpointslice.kubernetes.io/skip-mirror` and leader election locks are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Final

from weir.client.cache import ObjectKey
from weir.controllers.compat.endpoints import (
    ANNOTATION,
    HEADLESS,
    Port,
    ServiceWatch,
    TriggerTimes,
    address_of,
    families_of,
    hostname_of,
    is_headless,
    is_managed,
    pods_behind,
    ports_of,
    reference_to,
)
from weir.controllers.runtime.controller import Action, Controller, Create, Delete, Document, Patch, Record
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.pod_control import about, owner_reference
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
ZONE: Final = "topology.kubernetes.io/zone"
MOST: Final = 100
NEARBY: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")

Endpoint = dict[str, Any]
Group = tuple[str, tuple[Port, ...]]  #: address family, ports


class EndpointSlices(Controller):
    """The EndpointSlice controller."""

    name = "endpointslice-controller"
    kinds: Sequence[Kind] = (NODES, SERVICES, PODS, ENDPOINT_SLICES)

    def __init__(self, gates: Gates) -> None:
        self._watch, self._triggers = ServiceWatch(), TriggerTimes()

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the Services whose slices may have to change."""
        if kind is ENDPOINT_SLICES:
            metadata = (new or old)["metadata"]
            labels = metadata.get("labels") or {}
            if labels.get(MANAGED_BY) == MANAGER and labels.get(SERVICE_NAME):
                yield ObjectKey(metadata["namespace"], labels[SERVICE_NAME])
        else:
            yield from self._watch.changed(kind, old, new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what makes the slices say what is so."""
        service = listers.get(SERVICES, key.name, key.namespace)
        if service is None or not is_managed(service) or service["metadata"].get("deletionTimestamp"):
            self._triggers.forget(key)
            return  # those of a Service that is gone go with it
        pods = pods_behind(service, listers, terminating=True)
        triggered = self._triggers.look(key, service, pods)
        mine = [
            each
            for each in listers.owned(ENDPOINT_SLICES, service["metadata"]["uid"])
            if (each["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER
            and not each["metadata"].get("deletionTimestamp")
        ]
        mine.sort(key=lambda each: str(each["metadata"]["name"]))
        wanted = endpoints_of(service, pods, listers)
        for family in families_of(service):
            if not any(group[0] == family for group in wanted):
                wanted[family, ()] = []  # one slice says that there is no endpoint
        for each in mine:
            if group_of(each) not in wanted:
                yield _remove(each)
        for group, endpoints in wanted.items():
            there = [each for each in mine if group_of(each) == group]
            yield from _settle(service, group, endpoints, there, triggered)


def endpoints_of(service: Document, pods: list[Pod], listers: Listers) -> dict[Group, list[Endpoint]]:
    """Return the endpoints of a Service by address family and ports."""
    groups: dict[Group, list[Endpoint]] = {}
    tolerated = bool(service["spec"].get("publishNotReadyAddresses"))
    for pod in pods:
        ports = tuple(sorted(ports_of(service, pod)))
        for family in families_of(service):
            if ip := address_of(pod, family):
                endpoint = _endpoint(service, pod, ip, listers, tolerated)
                groups.setdefault((family, ports), []).append(endpoint)
    return groups


def _endpoint(service: Document, pod: Pod, ip: str, listers: Listers, tolerated: bool) -> Endpoint:
    endpoint: Endpoint = {
        "addresses": [ip],
        "conditions": {
            "ready": tolerated or (pod.ready and not pod.deleting),
            "serving": pod.ready,
            "terminating": pod.deleting,
        },
        "targetRef": reference_to(pod),
    }
    if hostname := hostname_of(service, pod):
        endpoint["hostname"] = hostname
    if pod.spec.node_name:
        endpoint["nodeName"] = pod.spec.node_name
        node = listers.node(pod.spec.node_name)
        if node is not None and node.labels.get(ZONE):
            endpoint["zone"] = node.labels[ZONE]
    if endpoint["conditions"]["ready"] and (hints := _hints(service, endpoint)):
        endpoint["hints"] = hints
    return endpoint


def _hints(service: Document, endpoint: Endpoint) -> dict[str, Any]:
    """Return the zones and nodes that should use an endpoint, for a Service with `trafficDistribution`."""
    wish = service["spec"].get("trafficDistribution")
    hints: dict[str, Any] = {}
    if wish in NEARBY and endpoint.get("zone"):
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if wish == "PreferSameNode" and endpoint.get("nodeName"):
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints


def _settle(
    service: Document,
    group: Group,
    endpoints: list[Endpoint],
    there: list[Document],
    triggered: str | None,
) -> Iterator[Action]:
    """Yield what spreads *endpoints* over the slices that are *there*, and over new ones."""
    left = {_identity(endpoint): endpoint for endpoint in endpoints}
    content: list[list[Endpoint]] = []
    for each in there:  # addresses keep the slice they are in
        stays = [left.pop(who) for old in each.get("endpoints") or () if (who := _identity(old)) in left]
        content.append(stays)
    new = list(left.values())
    for room in content:
        while new and len(room) < MOST:
            room.append(new.pop(0))
    labels = _labels(service)
    keep_one = not new and not any(content)
    for number, (each, room) in enumerate(zip(there, content, strict=True)):
        if not room and not (keep_one and number == 0):
            yield _remove(each)
        elif not _same(each.get("endpoints") or (), room) or each["metadata"].get("labels") != labels:
            gone = {name: None for name in each["metadata"].get("labels") or () if name not in labels}
            metadata = {
                "labels": {**gone, **labels},
                "annotations": {ANNOTATION: triggered},
                "resourceVersion": each["metadata"]["resourceVersion"],
            }
            patch = {"metadata": metadata, "endpoints": room}
            yield Patch(
                ENDPOINT_SLICES, each["metadata"]["name"], each["metadata"]["namespace"], patch, held=True
            )
    if keep_one and not there:
        yield _create(service, group, [], labels, triggered)
    while new:
        some, new = new[:MOST], new[MOST:]
        yield _create(service, group, some, labels, triggered)


def _create(
    service: Document, group: Group, endpoints: list[Endpoint], labels: dict[str, str], triggered: str | None
) -> Create:
    metadata, (family, ports) = service["metadata"], group
    document = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {ANNOTATION: triggered} if triggered else {},
            "ownerReferences": [owner_reference(service, SERVICES)],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [port.document(named=True) for port in ports],
    }
    return Create(ENDPOINT_SLICES, document, metadata["namespace"])


def _remove(each: Document) -> Delete:
    metadata = each["metadata"]
    return Delete(ENDPOINT_SLICES, metadata["name"], metadata["namespace"], metadata["uid"])


def _labels(service: Document) -> dict[str, str]:
    metadata = service["metadata"]
    labels = {**(metadata.get("labels") or {}), SERVICE_NAME: metadata["name"], MANAGED_BY: MANAGER}
    if is_headless(service):
        labels[HEADLESS] = ""
    return labels


def group_of(each: Document) -> Group:
    """Return the address family and ports of a slice."""
    ports = (
        Port(
            port.get("name") or "",
            port.get("port") or 0,
            port.get("protocol") or "TCP",
            port.get("appProtocol") or "",
        )
        for port in each.get("ports") or ()
    )
    return each["addressType"], tuple(sorted(ports))


def _identity(endpoint: Document) -> tuple[str, str]:
    return (endpoint.get("targetRef") or {}).get("uid", ""), endpoint["addresses"][0]


def _same(present: Iterable[Document], wanted: Iterable[Document]) -> bool:
    return {_identity(each): dict(each) for each in present} == {
        _identity(each): dict(each) for each in wanted
    }


MIRRORING_MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
NOT_COPIED: Final = (ANNOTATION, "kubectl.kubernetes.io/last-applied-configuration")
MOST_MIRRORED: Final = 1000


class EndpointMirror(Controller):
    """The EndpointSlice mirroring controller."""

    name = "endpointslice-mirroring-controller"
    event_source = "endpoint-slice-mirroring-controller"
    kinds: Sequence[Kind] = (SERVICES, ENDPOINTS, ENDPOINT_SLICES)

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the Endpoints whose slices may have to change."""
        metadata = (new or old)["metadata"]
        if kind is not ENDPOINT_SLICES:
            yield ObjectKey(metadata["namespace"], metadata["name"])
        elif (labels := metadata.get("labels") or {}).get(MANAGED_BY) == MIRRORING_MANAGER and labels.get(
            SERVICE_NAME
        ):
            yield ObjectKey(metadata["namespace"], labels[SERVICE_NAME])

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what makes the slices repeat the Endpoints, or takes them away."""
        mine: dict[Group, list[Document]] = {}
        for each in listers.within(ENDPOINT_SLICES, key.namespace):
            labels = each["metadata"].get("labels") or {}
            if (labels.get(MANAGED_BY), labels.get(SERVICE_NAME)) == (MIRRORING_MANAGER, key.name):
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
            elif not _same_mirror(there[0], document):
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
                f"A max of {MOST_MIRRORED} addresses can be mirrored to EndpointSlices per Endpoints subset. "
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
        skipped += max(0, len(both) - MOST_MIRRORED)
        for address, ready in both[:MOST_MIRRORED]:
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
            "labels": {
                **(metadata.get("labels") or {}),
                SERVICE_NAME: metadata["name"],
                MANAGED_BY: MIRRORING_MANAGER,
            },
            "annotations": {key: value for key, value in annotations.items() if key not in NOT_COPIED},
            "ownerReferences": [owner_reference(written, ENDPOINTS)],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [port.document(named=True) for port in ports],
    }


def _same_mirror(present: Document, wanted: Document) -> bool:
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
