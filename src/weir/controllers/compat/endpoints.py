"""Addresses and ports of a Service's pods, and the Endpoints controller, which groups them by ports.

A pod is an endpoint if the selector selects it, it has an address of the Service's family, and it has not finished. A
named target port is resolved per pod, so one Service port may be several numbers. The annotation
`endpoints.kubernetes.io/last-change-trigger-time` says when the oldest unprocessed change happened.

More than a thousand addresses are truncated, and an annotation says so. Only Services with a selector are handled;
the Endpoints of others belong to users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from weir.client.cache import ObjectKey
from weir.controllers.runtime.controller import Action, Controller, Create, Delete, Document, Patch
from weir.controllers.runtime.controller_refs import Claimants, selector_of
from weir.controllers.runtime.expectations import key_of
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import ENDPOINTS, PODS, SERVICES

HEADLESS: Final = "service.kubernetes.io/headless"


@dataclass(frozen=True, order=True)
class Port:
    """One port of a Service in one pod."""

    name: str
    number: int
    protocol: str
    app_protocol: str = ""

    def document(self, *, named: bool) -> dict[str, Any]:
        """Return the port as the API spells it; *named* says whether an empty name is written."""
        port: dict[str, Any] = {"port": self.number, "protocol": self.protocol}
        if self.name or named:
            port["name"] = self.name
        if self.app_protocol:
            port["appProtocol"] = self.app_protocol
        return port


class ServiceWatch:
    """Maps changes of pods and Services to the Services whose endpoints may change."""

    def __init__(self) -> None:
        self._selecting = Claimants()

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the Services to look at."""
        if kind is SERVICES:
            self._selecting.changed(old, new)
            yield key_of(new or old)
        elif kind is PODS:
            if old is not None and new is not None and _face(old) == _face(new):
                return
            keys: dict[str, None] = {}
            for pod in (old, new):
                if pod is not None:
                    labels = pod.metadata.labels or {}
                    keys |= dict.fromkeys(self._selecting.of(pod.metadata.namespace, labels))
            for name in keys:
                yield ObjectKey((new or old).metadata.namespace, name)


def _face(pod: Pod) -> tuple[Any, ...]:
    """Return what of a pod a Service shows."""
    status, spec = pod.status, pod.spec
    return (
        pod.metadata.uid,
        pod.metadata.labels,
        pod.deleting,
        pod.ready,
        pod.terminated,
        status.pod_ip,
        status.pod_ips,
        spec.node_name,
        spec.hostname,
        spec.subdomain,
    )


def is_managed(service: Document | None) -> bool:
    """Return whether a Service's endpoints follow from a selector."""
    if service is None:
        return False
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def is_headless(service: Document) -> bool:
    """Return whether a Service has no address of its own."""
    return service["spec"].get("clusterIP") in (None, "", "None")


def families_of(service: Document) -> list[str]:
    """Return the address families of a Service, the first its own.

    >>> families_of({"spec": {"clusterIP": "10.0.0.1"}}), families_of({"spec": {"ipFamilies": ["IPv6", "IPv4"]}})
    (['IPv4'], ['IPv6', 'IPv4'])
    """
    spec = service["spec"]
    if spec.get("ipFamilies"):
        return list(spec["ipFamilies"])
    return ["IPv6" if ":" in (spec.get("clusterIP") or "") else "IPv4"]


def pods_behind(service: Document, listers: Listers, *, terminating: bool) -> list[Pod]:
    """Return the pods of a Service in the order of their names; *terminating* ones too or not."""
    selector, namespace = selector_of(service), service["metadata"]["namespace"]
    if selector is None:
        return []
    pods = [
        pod
        for pod in listers.within(PODS, namespace)
        if not pod.terminated
        and (terminating or not pod.deleting)
        and selector.matches(pod.metadata.labels or {})
    ]
    return sorted(pods, key=lambda pod: str(pod.metadata.name))


def address_of(pod: Pod, family: str) -> str:
    """Return the pod's address of a family; nothing when it has none."""
    addresses = [each.ip for each in pod.status.pod_ips or ()] or [pod.status.pod_ip]
    return next((ip for ip in addresses if ip and ((":" in ip) == (family == "IPv6"))), "")


def ports_of(service: Document, pod: Pod) -> list[Port]:
    """Return the Service's ports as this pod has them; one it does not have is left out."""
    ports = []
    for each in service["spec"].get("ports") or ():
        number = _number(each, pod)
        if number is not None:
            protocol = each.get("protocol", "TCP")
            ports.append(Port(each.get("name", ""), number, protocol, each.get("appProtocol", "")))
    return ports


def _number(service_port: Document, pod: Pod) -> int | None:
    target = service_port.get("targetPort", service_port["port"])
    if isinstance(target, int):
        return target or int(service_port["port"])
    protocol = service_port.get("protocol", "TCP")
    sidecars = [each for each in pod.spec.init_containers or () if each.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports or ():
            if port.name == target and port.protocol == protocol:
                return port.container_port
    return None


def hostname_of(service: Document, pod: Pod) -> str:
    """Return the pod's name in the Service's domain, if its spec sets one."""
    mine = pod.spec.subdomain == service["metadata"]["name"]
    return pod.spec.hostname if mine else ""


def reference_to(pod: Pod) -> dict[str, str]:
    """Return the reference that says which pod an address is."""
    metadata = pod.metadata
    return {"kind": "Pod", "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid}


ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """What was seen of each Service at the last look."""

    def __init__(self) -> None:
        self._seen: dict[ObjectKey, tuple[str, dict[str, str]]] = {}

    def forget(self, key: ObjectKey) -> None:
        """Forget a Service that is gone."""
        self._seen.pop(key, None)

    def look(self, key: ObjectKey, service: Mapping[str, Any], pods: Iterable[Pod]) -> str | None:
        """Return when the oldest change since the last look happened; None when it is unknown."""
        made, before = self._seen.get(key, ("", {}))
        created = service["metadata"].get("creationTimestamp") or ""
        times = {pod.metadata.name: at for pod in pods if (at := _ready_since(pod))}
        changed = [at for name, at in times.items() if at > before.get(name, "")]
        if created > made:
            changed.append(created)
        self._seen[key] = created, times
        return min(changed, default=None)


def _ready_since(pod: Pod) -> str:
    found = pod.status.condition("Ready")
    return (found.last_transition_time or "") if found is not None else ""


MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
MOST: Final = 1000


class Endpoints(Controller):
    """The Endpoints controller."""

    name = MANAGER
    kinds: Sequence[Kind] = (SERVICES, PODS, ENDPOINTS)

    def __init__(self, gates: Gates) -> None:
        self._watch, self._triggers = ServiceWatch(), TriggerTimes()

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ObjectKey]:
        """Yield the Services whose Endpoints may have to change."""
        if kind is ENDPOINTS:
            yield key_of(new or old)
        else:
            yield from self._watch.changed(kind, old, new)

    def reconcile(self, key: ObjectKey, listers: Listers, now: datetime) -> Iterator[Action]:
        """Yield what makes the Endpoints say what is so."""
        service = listers.get(SERVICES, key.name, key.namespace)
        present: Document | None = listers.get(ENDPOINTS, key.name, key.namespace)
        if service is None:
            self._triggers.forget(key)
            if present is not None and (present["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER:
                yield Delete(ENDPOINTS, key.name, key.namespace, present["metadata"]["uid"])
            return
        if not is_managed(service) or service["metadata"].get("deletionTimestamp"):
            return
        pods = pods_behind(service, listers, terminating=True)
        triggered = self._triggers.look(key, service, pods)
        subsets, cut = subsets_of(service, pods)
        labels = {**(service["metadata"].get("labels") or {}), MANAGED_BY: MANAGER}
        if is_headless(service):
            labels[HEADLESS] = ""
        if present is None:
            metadata: dict[str, Any] = {"name": key.name, "namespace": key.namespace, "labels": labels}
            annotations = {ANNOTATION: triggered, OVER_CAPACITY: "truncated" if cut else None}
            metadata["annotations"] = {name: value for name, value in annotations.items() if value}
            document = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
            yield Create(ENDPOINTS, document, key.namespace)
            return
        said = present["metadata"]
        marked = (said.get("annotations") or {}).get(OVER_CAPACITY) == "truncated"
        if _plain(present.get("subsets")) == subsets and said.get("labels") == labels and marked == cut:
            return
        gone = {name: None for name in said.get("labels") or () if name not in labels}
        changes: dict[str, Any] = {"labels": {**gone, **labels}, "resourceVersion": said["resourceVersion"]}
        changes["annotations"] = {ANNOTATION: triggered, OVER_CAPACITY: "truncated" if cut else None}
        patch = {"metadata": changes, "subsets": subsets or None}
        yield Patch(ENDPOINTS, key.name, key.namespace, patch, held=True)


def subsets_of(service: Document, pods: list[Pod]) -> tuple[list[dict[str, Any]], bool]:
    """Return the subsets of a Service's Endpoints, and whether addresses had to be left out."""
    tolerated = bool(service["spec"].get("publishNotReadyAddresses"))
    family = families_of(service)[0]
    groups: dict[tuple[Port, ...], tuple[list[Document], list[Document]]] = {}
    for pod in pods:
        if pod.deleting and not tolerated:
            continue
        ip = address_of(pod, family)
        ports = tuple(sorted(ports_of(service, pod)))
        if not ip or (service["spec"].get("ports") and not ports):
            continue
        address: dict[str, Any] = {"ip": ip, "targetRef": reference_to(pod)}
        if pod.spec.node_name:
            address["nodeName"] = pod.spec.node_name
        if hostname := hostname_of(service, pod):
            address["hostname"] = hostname
        ready, waiting = groups.setdefault(ports, ([], []))
        (ready if tolerated or pod.ready else waiting).append(address)
    total = sum(len(ready) + len(waiting) for ready, waiting in groups.values())
    room = MOST
    kept: dict[tuple[Port, ...], dict[str, list[Document]]] = {ports: {} for ports in groups}
    for which, name in ((0, "addresses"), (1, "notReadyAddresses")):  # those that serve come first
        for ports, both in sorted(groups.items()):
            some = sorted(both[which], key=_address_order)[:room]
            room -= len(some)
            if some:
                kept[ports][name] = some
    subsets = [
        {**kept[ports], **({"ports": [port.document(named=False) for port in ports]} if ports else {})}
        for ports in sorted(groups)
        if kept[ports]
    ]
    return subsets, total > MOST


def _address_order(address: Document) -> tuple[str, str]:
    return address["ip"], (address.get("targetRef") or {}).get("uid", "")


def _plain(subsets: Any) -> list[dict[str, Any]]:
    """Return subsets in the order in which they are compared."""
    found = []
    for subset in subsets or ():
        each = dict(subset)
        for name in ("addresses", "notReadyAddresses"):
            if each.get(name):
                each[name] = sorted(each[name], key=_address_order)
        if each.get("ports"):
            each["ports"] = sorted(each["ports"], key=_port_order)
        found.append(each)
    return sorted(found, key=lambda each: [_port_order(port) for port in each.get("ports") or ()])


def _port_order(port: Document) -> tuple[str, int, str]:
    return port.get("name", ""), port["port"], port.get("protocol", "TCP")
