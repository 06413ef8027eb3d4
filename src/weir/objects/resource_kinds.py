"""Classifies a pod's resources: best effort, extended, pod-level.

Spec: apiserver.md 5.1 (qosClass). Works on the wire form of a pod's spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weir.objects.pod_resources import QOS_RESOURCES, is_pod_level
from weir.values.names import check_label_key
from weir.values.quantity import find_quantity


def is_best_effort(spec: Mapping[str, Any]) -> bool:
    """Return whether no container has a cpu or memory request or limit.

    >>> is_best_effort({"containers": [{"resources": {"requests": {"cpu": "0"}}}]})
    True
    """
    for holder in (spec, *containers(spec)):
        resources = holder.get("resources")
        if resources:
            for part in ("requests", "limits"):
                amounts = resources.get(part)
                if amounts and any(_positive(amounts.get(name)) for name in QOS_RESOURCES):
                    return False
    return True


def containers(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Yield init containers, then containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def is_extended_resource(name: str) -> bool:
    """Return whether *name* is a resource Kubernetes itself knows nothing about.

    >>> [is_extended_resource(n) for n in ("cpu", "example.com/gpu", "kubernetes.io/x", "requests.a.b/c")]
    [False, True, False, False]
    """
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not check_label_key(f"requests.{name}")


def sets_pod_level(spec: Mapping[str, Any]) -> bool:
    """Return whether the pod has pod-level resources.

    >>> sets_pod_level({"resources": {"limits": {"cpu": "1"}}}), sets_pod_level({"resources": {}})
    (True, False)
    """
    resources = spec.get("resources") or {}
    return any(is_pod_level(name) for part in ("requests", "limits") for name in resources.get(part) or ())


def _positive(text: object) -> bool:
    if text is None:
        return False
    quantity = find_quantity(str(text))
    return quantity is not None and quantity.sign > 0
