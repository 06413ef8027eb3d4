"""Simulated resource usage of containers, from annotations or as a share of their requests.

    weir.dev/cpu-usage      on a pod: usage of each container ("250m")
    weir.dev/memory-usage   the same of memory ("300Mi")
    weir.dev/cpu-load       on a workload: what all its running pods use together, each an equal part ("2400m")
    weir.dev/memory-load

With a container's name appended (`weir.dev/cpu-usage.app`) an annotation is about that container. A load is shared by
the pods, so an autoscaler converges. It may be on any controller above the pods; the topmost counts, because
Deployments copy their annotations down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from weir.values.quantity import Quantity, find_quantity

Document = Mapping[str, Any]
PREFIX: Final = "weir.dev/"
RESOURCES: Final = ("cpu", "memory")
#: What a container uses of which nothing is known: too little to matter, too much to be taken for nothing.
SMALL: Final = {"cpu": Quantity(1, -3), "memory": Quantity(10 * 2**20)}
#: The smallest part of each resource that is reported: nanocores and bytes.
SCALES: Final = {"cpu": -9, "memory": 0}


@dataclass(frozen=True)
class UsageModel:
    """What is known of the usage of pods that say nothing about it themselves."""

    #: the part of its request that a container uses; None: unknown, and not reported
    share: float | None = 0.5


def load_of(owner: Document, resource: str) -> Quantity | None:
    """Return what the pods of *owner* use together, if it says so.

    >>> str(load_of({"metadata": {"annotations": {"weir.dev/cpu-load": "2400m"}}}, "cpu"))
    '2400m'
    """
    annotations = (owner.get("metadata") or {}).get("annotations") or {}
    return _amount(annotations.get(f"{PREFIX}{resource}-load"))


def container_usage(
    pod: Document, container: Document, model: UsageModel, loads: Mapping[str, Quantity]
) -> dict[str, Quantity]:
    """Return what a running container uses, by resource; *loads* are the pod's parts of its workload's loads.

    >>> pod = {"metadata": {"annotations": {"weir.dev/cpu-usage": "250m"}}, "spec": {"containers": [{"name": "c"}]}}
    >>> {name: str(amount) for name, amount in container_usage(pod, {"name": "c"}, UsageModel(), {}).items()}
    {'cpu': '250m', 'memory': '10485760'}
    """
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    containers = len((pod.get("spec") or {}).get("containers") or ()) or 1
    requests = (container.get("resources") or {}).get("requests") or {}
    usage: dict[str, Quantity] = {}
    for resource in RESOURCES:
        setting = f"{PREFIX}{resource}-usage"
        quantity = _amount(annotations.get(f"{setting}.{container.get('name')}")) or _amount(
            annotations.get(setting)
        )
        if quantity is None and resource in loads:
            quantity = _part(loads[resource], 1 / containers, resource)
        if quantity is None and model.share is not None:
            asked = _amount(requests.get(resource))
            quantity = _part(asked, model.share, resource) if asked is not None else SMALL[resource]
        if quantity is not None:
            usage[resource] = quantity
    return usage


def shared(load: Quantity, pods: int, resource: str) -> Quantity:
    """Return the part of a load that each of so many pods bears.

    >>> str(shared(find_quantity("1"), 4, "cpu"))
    '250m'
    """
    return _part(load, 1 / pods, resource)


def _part(amount: Quantity, share: float, resource: str) -> Quantity:
    scale = SCALES[resource]
    return Quantity(round(amount.scaled(scale) * share), scale)


def _amount(text: object) -> Quantity | None:
    """Return an amount that is none below zero; what cannot be read says nothing."""
    found = find_quantity(str(text)) if text is not None else None
    return found if found is not None and found.sign >= 0 else None
