"""Endpoints controller: the addresses of a Service's pods, ready and not ready, grouped by ports.

More than a thousand addresses are truncated, and an annotation says so. Only Services with a selector are handled;
the Endpoints of others belong to users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from weir.gates import Gates
from weir.objects.kind import Kind
from weir.objects.kinds import ENDPOINTS, PODS, SERVICES

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

    def changed(self, kind: Kind, old: Any, new: Any) -> Iterator[ServiceKey]:
        """Yield the Services whose Endpoints may have to change."""
        if kind is ENDPOINTS:
            metadata = (new or old)["metadata"]
            yield ServiceKey(metadata["namespace"], metadata["name"])
        else:
            yield from self._watch.changed(kind, old, new)

    def reconcile(self, key: ServiceKey, listers: Listers, now: datetime) -> Iterator[Action]:
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
