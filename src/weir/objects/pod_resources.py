"""Total resources of a pod's containers, and its classes: quality of service, extended, pod-level.

Spec: core.md 3.7.5 (request of a pod).
Containers and sidecars (restartable init containers) add up; other init containers run one after another beside the
sidecars started before, so the largest of those sums counts where it exceeds what runs later. Pod-level cpu, memory
and hugepages replace the sum. Admission, validation and quotas use exact quantities (`container_totals`,
`pod_total`); the scheduler's sums with overhead and resizes are in weir.objects.requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from weir.values.names import check_label_key
from weir.values.quantity import Quantity, find_quantity

Amounts = dict[str, Quantity]
QOS_RESOURCES = ("cpu", "memory")


class _Amount(Protocol):
    """A number of some unit: an int, or an exact quantity."""

    def __add__(self, other: Any, /) -> Any: ...

    def __lt__(self, other: Any, /) -> bool: ...


A = TypeVar("A", bound=_Amount)


def sum_of_containers(
    containers: Iterable[Mapping[str, A]], init_containers: Iterable[tuple[Mapping[str, A], bool]] = ()
) -> dict[str, A]:
    """Return what runs at the same time at most, by resource; init containers say whether they are sidecars.

    >>> sum_of_containers([{"cpu": 1}], [({"cpu": 1}, True), ({"cpu": 3, "memory": 5}, False)])
    {'cpu': 4, 'memory': 5}
    """
    total: dict[str, A] = {}
    for amounts in containers:
        add(total, amounts)
    sidecars: dict[str, A] = {}
    starting: dict[str, A] = {}
    for amounts, is_sidecar in init_containers:
        if is_sidecar:
            add(sidecars, amounts)
            add(total, amounts)
        else:
            beside = dict(amounts)
            add(beside, sidecars)
            raise_to(starting, beside)
    raise_to(total, starting)
    return total


def add(total: dict[str, A], amounts: Mapping[str, A]) -> None:
    """Add *amounts* to *total*."""
    for resource, amount in amounts.items():
        total[resource] = total[resource] + amount if resource in total else amount


def raise_to(total: dict[str, A], amounts: Mapping[str, A]) -> None:
    """Make *total* at least *amounts*."""
    for resource, amount in amounts.items():
        if resource not in total or total[resource] < amount:
            total[resource] = amount


def is_pod_level(resource: str) -> bool:
    """Return whether *resource* may be requested at pod level."""
    return resource in QOS_RESOURCES or resource.startswith("hugepages-")


def read_amounts(wire: Mapping[str, Any] | None) -> Amounts:
    """Return a resource list's quantities; what cannot be read is left to validation to refuse."""
    found = ((name, find_quantity(str(text))) for name, text in (wire or {}).items())
    return {name: quantity for name, quantity in found if quantity is not None}


def container_totals(spec: Mapping[str, Any], part: str) -> Amounts:
    """Return what the containers of a pod spec need of *part* (`requests` or `limits`).

    >>> sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    >>> first = {"resources": {"requests": {"cpu": "2"}}}
    >>> spec = {"initContainers": [sidecar, first], "containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    >>> {name: str(amount) for name, amount in container_totals(spec, "requests").items()}
    {'cpu': '2100m'}
    """
    return sum_of_containers(
        [_of(container, part) for container in spec.get("containers") or ()],
        [
            (_of(each, part), each.get("restartPolicy") == "Always")
            for each in spec.get("initContainers") or ()
        ],
    )


def pod_total(spec: Mapping[str, Any], part: str) -> Amounts:
    """Return the pod's total of *part* as LimitRanger and quotas count it: pod-level amounts replace the sum."""
    level = {name: amount for name, amount in _of(spec, part).items() if is_pod_level(name)}
    return {**container_totals(spec, part), **level}


def _of(holder: Mapping[str, Any], part: str) -> Amounts:
    return read_amounts((holder.get("resources") or {}).get(part))


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


def qos_class(spec: Mapping[str, Any]) -> str:
    """Return the quality of service class of a pod spec; pod-level resources decide in place of the containers'.

    >>> qos_class({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    'Burstable'
    >>> both = {"cpu": "1", "memory": "1Gi"}
    >>> qos_class({"containers": [{}], "resources": {"requests": both, "limits": both}})
    'Guaranteed'
    """
    own = spec.get("resources") or {}
    holders = [spec] if own.get("requests") or own.get("limits") else containers(spec)
    requests: Amounts = {}
    limits: Amounts = {}
    all_limited = True
    for holder in holders:
        resources = holder.get("resources") or {}
        limited = _compute(resources.get("limits"))
        all_limited = all_limited and len(limited) == len(QOS_RESOURCES)
        add(limits, limited)
        add(requests, _compute(resources.get("requests")))
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if all_limited and requests == limits else "Burstable"


def _compute(wire: Mapping[str, Any] | None) -> Amounts:
    """Return the amounts of cpu and memory above zero."""
    amounts = read_amounts({name: wire[name] for name in QOS_RESOURCES if name in wire}) if wire else {}
    return {name: amount for name, amount in amounts.items() if amount.sign > 0}


def is_native(name: str) -> bool:
    """Return whether a resource is Kubernetes' own: no domain, or one under kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    """Return whether a resource is an extended one, counted in whole numbers and never overcommitted.

    >>> [is_extended_resource(n) for n in ("cpu", "example.com/gpu", "kubernetes.io/x", "requests.a.b/c")]
    [False, True, False, False]
    """
    return (
        not is_native(name) and not name.startswith("requests.") and not check_label_key(f"requests.{name}")
    )


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
