"""Addresses and ports of a Service's pods, shared by the Endpoints and EndpointSlice controllers.

A pod is an endpoint if the selector selects it, it has an address of the Service's family, and it has not finished. A
named target port is resolved per pod, so one Service port may be several numbers. The annotation
`endpoints.kubernetes.io/last-change-trigger-time` says when the oldest unprocessed change happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.controllers.runtime.controller_refs import Claimants, selector_of
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.objects.kind import Kind
from weir.objects.kinds import PODS, SERVICES

HEADLESS: Final = "service.kubernetes.io/headless"

Document = Mapping[str, Any]


@dataclass(frozen=True)
class ServiceKey:
    """One Service."""

    namespace: str
    name: str


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

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ServiceKey]:
        """Yield the Services to look at."""
        if kind is SERVICES:
            self._selecting.changed(old, new)
            metadata = (new or old)["metadata"]
            yield ServiceKey(metadata["namespace"], metadata["name"])
        elif kind is PODS:
            if old is not None and new is not None and _face(old) == _face(new):
                return
            keys: dict[str, None] = {}
            for pod in (old, new):
                if pod is not None:
                    labels = pod.metadata.labels or {}
                    keys |= dict.fromkeys(self._selecting.of(pod.metadata.namespace, labels))
            for name in keys:
                yield ServiceKey((new or old).metadata.namespace, name)


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
        self._seen: dict[ServiceKey, tuple[str, dict[str, str]]] = {}

    def forget(self, key: ServiceKey) -> None:
        """Forget a Service that is gone."""
        self._seen.pop(key, None)

    def look(self, key: ServiceKey, service: Mapping[str, Any], pods: Iterable[Pod]) -> str | None:
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
