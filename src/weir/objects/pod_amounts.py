"""How much does a pod ask for, as admission and quotas count it?

Spec: core.md 3.7.5 (request of a pod), apiserver.md 5.1 (qosClass). Works on the wire form of a pod's spec.
Not here: qosClass in the status (weir.apiserver.strategies), what fits where (the scheduler).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weir.values.names import check_label_key
from weir.values.quantity import Quantity, find_quantity

Amounts = dict[str, Quantity]
_QOS_RESOURCES = ("cpu", "memory")


def is_best_effort(spec: Mapping[str, Any]) -> bool:
    """Return whether no container asks for, or is limited to, any cpu or memory.

    >>> is_best_effort({"containers": [{"resources": {"requests": {"cpu": "0"}}}]})
    True
    """
    for holder in (spec, *containers(spec)):
        resources = holder.get("resources")
        if resources:
            for part in ("requests", "limits"):
                amounts = resources.get(part)
                if amounts and any(_positive(amounts.get(name)) for name in _QOS_RESOURCES):
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


def amounts(wire: Mapping[str, Any] | None) -> Amounts:
    """Return a resource list's quantities; what cannot be read is left to validation to refuse."""
    found = ((name, find_quantity(str(text))) for name, text in (wire or {}).items())
    return {name: quantity for name, quantity in found if quantity is not None}


def pod_total(spec: Mapping[str, Any], part: str) -> Amounts:
    """Return the pod's total of *part* ("requests" or "limits") as LimitRanger and quotas count it.

    Containers and sidecars add up; an ordinary init container counts together with the sidecars before it;
    the greater of both wins. Pod-level cpu and memory replace the sum.
    """
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _of(container, part))
    sidecars: Amounts = {}
    initial: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, part)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            _most(initial, sidecars)
        else:
            _add(own, sidecars)
            _most(initial, own)
    _most(total, initial)
    for name, quantity in _of(spec, part).items():
        if _is_of_pod_level(name):
            total[name] = quantity
    return total


def sets_pod_level(spec: Mapping[str, Any]) -> bool:
    """Return whether the pod as a whole asks for something.

    >>> sets_pod_level({"resources": {"limits": {"cpu": "1"}}}), sets_pod_level({"resources": {}})
    (True, False)
    """
    resources = spec.get("resources") or {}
    return any(
        _is_of_pod_level(name) for part in ("requests", "limits") for name in resources.get(part) or ()
    )


def _is_of_pod_level(name: str) -> bool:
    return name in _QOS_RESOURCES or name.startswith("hugepages-")


def _of(holder: Mapping[str, Any], part: str) -> Amounts:
    return amounts((holder.get("resources") or {}).get(part))


def _add(total: Amounts, more: Amounts) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _most(total: Amounts, other: Amounts) -> None:
    for name, quantity in other.items():
        if name not in total or total[name] < quantity:
            total[name] = quantity


def _positive(text: object) -> bool:
    if text is None:
        return False
    quantity = find_quantity(str(text))
    return quantity is not None and quantity.sign > 0
