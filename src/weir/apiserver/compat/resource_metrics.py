"""Resource metrics API (metrics.k8s.io/v1beta1) of a simulated cluster.

Like metrics-server, which scrapes kubelets every 15 seconds: values change only at such steps, a container has none
before its first step, and a finished pod has none. Nothing is stored: lists have no resourceVersion and cannot be
watched. Usage is computed in weir.objects.pod_usage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from weir import errors
from weir.apiserver.registry.codec import Reader
from weir.objects.kind import Kind
from weir.objects.kinds import NODES, PODS, find_kind
from weir.objects.pod_resources import Amounts, add, read_amounts
from weir.objects.pod_usage import RESOURCES, SCALES, UsageModel, container_usage, load_of, shared
from weir.objects.times import format_time
from weir.selectors import fields, labels
from weir.values.quantity import Format, Quantity

Document = Mapping[str, Any]
RESOLUTION_SECONDS: Final = 15
WINDOW: Final = f"{RESOLUTION_SECONDS}s"
#: What a node uses for itself, beside its pods.
SYSTEM: Final = {"cpu": Quantity(50, -3), "memory": Quantity(200 * 2**20)}
_COLUMNS: Final = (
    ("Name", "name", "Name of the resource"),
    ("Cpu", "", "Usage of cpu"),
    ("Memory", "", "Usage of memory"),
    ("Window", "", "The time the usage was measured over"),
)


class ResourceMetrics:
    """The metrics of the pods and nodes of one cluster."""

    def __init__(self, reader: Reader, model: UsageModel) -> None:
        self._reader, self._model = reader, model

    def get(self, kind: Kind, namespace: str, name: str, now: float) -> dict[str, Any]:
        """Return the metrics of one pod or node; raises 404."""
        for found in self._all(kind, namespace, now):
            if found["metadata"]["name"] == name:
                return {"kind": kind.kind, "apiVersion": kind.api_version, **found}
        raise errors.NotFound.object(kind, f"{namespace}/{name}" if namespace else name)

    def select(
        self, kind: Kind, namespace: str, label_selector: str, field_selector: str, now: float
    ) -> dict[str, Any]:
        """Return the metrics of the pods or nodes that the selectors choose; raises 400."""
        try:
            by_label, by_field = labels.parse(label_selector), fields.parse(field_selector)
            bound = by_field.bind(kind.group, kind.kind, kind.version)
        except (labels.SelectorError, fields.SelectorError) as error:
            raise errors.BadRequest(str(error)) from None
        items = [
            found
            for found in self._all(kind, namespace, now)
            if by_label.matches(found["metadata"].get("labels") or {})
            and all((get(found) == value) is equal for get, equal, value in bound)
        ]
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}, "items": items}

    def table(self, found: Document, meta: str) -> dict[str, Any]:
        """Return one object or a list as `kubectl get` prints it."""
        items = found.get("items", [found])
        return {
            "kind": "Table",
            "apiVersion": meta,
            "metadata": {},
            "columnDefinitions": [
                {"name": name, "type": "string", "format": form, "description": text, "priority": 0}
                for name, form, text in _COLUMNS
            ],
            "rows": [
                {
                    "cells": [each["metadata"]["name"], *_cells(each), each["window"]],
                    "object": {
                        "kind": "PartialObjectMetadata",
                        "apiVersion": meta,
                        "metadata": each["metadata"],
                    },
                }
                for each in items
            ],
        }

    def _all(self, kind: Kind, namespace: str, now: float) -> Iterator[dict[str, Any]]:
        measured = math.floor(now / RESOLUTION_SECONDS) * RESOLUTION_SECONDS
        used = self._pods(namespace if kind.namespaced else "", measured)
        if kind.namespaced:
            for pod, containers in used:
                shown = [{"name": name, "usage": _printed(amounts)} for name, amounts in containers.items()]
                yield {**_described(pod, measured), "containers": shown}
            return
        by_node: dict[str, list[Amounts]] = {}
        for pod, containers in used:
            by_node.setdefault(pod["spec"]["nodeName"], []).extend(containers.values())
        for node in self._reader.list_now(NODES):
            if _is_ready(node):
                yield {
                    **_described(node, measured),
                    "usage": _printed(_sum([SYSTEM, *by_node.get(node["metadata"]["name"], ())])),
                }

    def _pods(self, namespace: str, measured: float) -> list[tuple[Document, dict[str, Amounts]]]:
        """Return the pods that were measured, each with what its containers used."""
        running = [
            (pod, started)
            for pod in self._reader.list_now(PODS, namespace or None)
            if (started := _started(pod, measured))
        ]
        holders = [self._with_load(pod) for pod, _ in running]
        bearers = Counter(holder["metadata"]["uid"] for holder in holders if holder is not None)
        result = []
        for (pod, started), holder in zip(running, holders, strict=True):
            loads: Amounts = {}
            if holder is not None:
                pods = bearers[holder["metadata"]["uid"]]
                found = ((name, load_of(holder, name)) for name in RESOURCES)
                loads = {name: shared(load, pods, name) for name, load in found if load is not None}
            used = {each["name"]: container_usage(pod, each, self._model, loads) for each in started}
            if any(used.values()):
                result.append((pod, {name: amounts for name, amounts in used.items() if amounts}))
        return result

    def _with_load(self, pod: Document) -> Document | None:
        """Return the topmost of the objects that control *pod* which says what its pods use together."""
        found, child = None, pod
        while (owner := _controller(child)) is not None:
            kind = find_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
            if kind is None or not kind.stored or not kind.namespaced:
                break
            above = self._reader.get_now(kind, pod["metadata"]["namespace"], owner["name"])
            if above is None:
                break
            if any(load_of(above, name) is not None for name in RESOURCES):
                found = above
            child = above
        return found


def _cells(found: Document) -> list[str]:
    used = [found["usage"]] if "usage" in found else [each["usage"] for each in found["containers"]]
    total = _printed(_sum(read_amounts(each) for each in used))
    return [total.get(name, "0") for name in RESOURCES]


def _controller(document: Document) -> Document | None:
    owners = document["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _started(pod: Document, measured: float) -> list[Document]:
    """Return the containers that ran already when they were last measured."""
    status = pod.get("status") or {}
    if status.get("phase") != "Running" or not pod["spec"].get("nodeName"):
        return []
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    since = {
        each["name"]: datetime.fromisoformat(running["startedAt"]).timestamp()
        for each in statuses
        if (running := (each.get("state") or {}).get("running")) and running.get("startedAt")
    }
    spec = pod["spec"]
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return [each for each in containers if since.get(each["name"], math.inf) <= measured]


def _is_ready(node: Document) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _described(of: Document, measured: float) -> dict[str, Any]:
    at = format_time(datetime.fromtimestamp(measured, UTC))
    metadata = of["metadata"]
    shown = {"name": metadata["name"], "creationTimestamp": at}
    for name in ("namespace", "labels"):
        if metadata.get(name):
            shown[name] = metadata[name]
    return {"metadata": shown, "timestamp": at, "window": WINDOW}


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for each in amounts:
        add(total, each)
    return total


def _printed(amounts: Amounts) -> dict[str, str]:
    """Return a usage as metrics-server prints it: CPU in nanocores, memory in Ki.

    >>> _printed({"cpu": Quantity(250, -3), "memory": Quantity(10 * 2**20)})
    {'cpu': '250m', 'memory': '10Mi'}
    """
    forms = {"cpu": Format.DECIMAL_SI, "memory": Format.BINARY_SI}
    return {
        name: str(Quantity(amount.scaled(SCALES[name]), SCALES[name], forms[name]))
        for name, amount in amounts.items()
    }
