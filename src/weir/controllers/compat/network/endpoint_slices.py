"""EndpointSlice controller: the pods' addresses of a Service by family and ports, at most a hundred per slice.

An address stays in its slice, so that a change of one pod changes one slice; slices are filled before new ones are
created, and an empty one is deleted unless it is the only one of its family. Terminating pods are listed as such
while they serve. With `trafficDistribution`, hints name each ready endpoint's own zone, and with PreferSameNode its
node. Hints in proportion to the zones' CPUs (`service.kubernetes.io/topology-mode`) are not implemented.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from weir.controllers.compat.network.service_endpoints import (
    ANNOTATION,
    HEADLESS,
    Port,
    ServiceKey,
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
from weir.controllers.runtime.actions import Action, Create, Delete, Document, Patch
from weir.controllers.runtime.controller import Controller
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.controllers.workloads.pod_control import owner_reference
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES

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

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ServiceKey]:
        """Yield the Services whose slices may have to change."""
        if kind is ENDPOINT_SLICES:
            metadata = (new or old)["metadata"]
            labels = metadata.get("labels") or {}
            if labels.get(MANAGED_BY) == MANAGER and labels.get(SERVICE_NAME):
                yield ServiceKey(metadata["namespace"], labels[SERVICE_NAME])
        else:
            yield from self._watch.changed(kind, old, new)

    def reconcile(self, key: ServiceKey, listers: Listers, now: datetime) -> Iterator[Action]:
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
