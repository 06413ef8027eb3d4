"""Resource requests of pods and allocatable resources of nodes, in whole units.

Spec: the request rule of NodeResourcesFit: the sum of weir.objects.pod_resources plus overhead; pod-level requests
replace the sum for cpu, memory and hugepages. During an in-place resize the largest of desired, allocated and actual
counts. A limit without a request counts as a request (the API server defaults it so), so manifests and stored pods
give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from weir.caches import bounded
from weir.objects.core import Container, Node, Pod, Quantities, ResourceRequirements
from weir.objects.pod_resources import add, is_pod_level, raise_to, sum_of_containers
from weir.values.quantity import QuantityError, parse_quantity

#: Amounts by resource: CPU in thousandths of a core, everything else in whole units.
Amounts = dict[str, int]

#: Address, protocol and number of a port on the node.
HostPort = tuple[str, str, int]

CPU: Final = "cpu"
PODS: Final = "pods"
_NANO: Final = 10**9
_MILLI: Final = 10**6
#: 16 PiB, or as many thousandths of a core: the sum of 500 pods still fits 64 bits.
MOST_AMOUNT: Final = 2**54


class RequestError(ValueError):
    """An amount that cannot be read; the message names the object and the resource."""


@lru_cache(maxsize=16384)
def _nanos(text: str) -> int:
    return parse_quantity(text).scaled(-9)


def _read(amounts: Quantities | None, owner: str) -> dict[str, int]:
    """Return *amounts* exactly, in units of 1n."""
    read: dict[str, int] = {}
    for resource, text in (amounts or {}).items():
        try:
            read[resource] = _nanos(str(text))
        except QuantityError as error:
            raise RequestError(f"{owner}: {resource}: {str(text)[:60]!r}: {error}") from None
    return read


def _counted(nanos: Mapping[str, int]) -> Amounts:
    """Return exact amounts as the scheduler counts them, each rounded up once, and none above `MOST_AMOUNT`."""
    return {
        resource: min(-(-amount // unit_nanos(resource)), MOST_AMOUNT) for resource, amount in nanos.items()
    }


def unit_nanos(resource: str) -> int:
    """Return how many 1n one counted unit of *resource* has: CPU is counted in thousandths."""
    return _MILLI if resource == CPU else _NANO


def _wanted(resources: ResourceRequirements | None, owner: str) -> dict[str, int]:
    if resources is None:
        return {}
    return {**_read(resources.limits, owner), **_read(resources.requests, owner)}


def restarts(container: Container) -> bool:
    """Return whether an init container keeps running beside the others (a sidecar)."""
    return container.restart_policy == "Always"


def container_requests(container: Container, owner: str = "") -> Amounts:
    """Return the requests of one container."""
    return _counted(_wanted(container.resources, owner))


def pod_requests(pod: Pod, *, missing: Mapping[str, int] | None = None, set_aside: bool = False) -> Amounts:
    """Return what *pod* asks of a node; resources it does not name are left out.

    *missing* (in units of 1n) is what a container counts as that does not ask for the resource. With *set_aside*, a
    pod that is being resized in place counts at the most of what it asks for, was given and has.

    >>> from weir.objects.core import Pod, read
    >>> resources = {"requests": {"cpu": "250m"}, "limits": {"memory": "1Gi"}}
    >>> pod_requests(read(Pod, {"spec": {"containers": [{"name": "a", "resources": resources}] * 2}}))
    {'memory': 2147483648, 'cpu': 500}
    """
    spec, owner = pod.spec, f"Pod {pod.key}"
    total = _together(pod, lambda container: {**(missing or {}), **_wanted(container.resources, owner)})
    level = _pod_level(spec.resources, total, owner)
    if set_aside and has_allocated_resources(pod):
        total = _most_of(pod, total, missing or {}, owner)
        level = _most_of_pod_level(pod, level, owner)
    total |= level
    add(total, _read(spec.overhead, owner))
    return _counted(total)


def _together(pod: Pod, wanted: Callable[[Container], dict[str, int]]) -> dict[str, int]:
    """Return what the containers of *pod* need, each of which needs what *wanted* says."""
    spec = pod.spec
    return sum_of_containers(
        [wanted(container) for container in spec.containers],
        [(wanted(container), restarts(container)) for container in spec.init_containers or ()],
    )


def has_pod_level_requests(pod: Pod) -> bool:
    """Return whether *pod* has pod-level requests."""
    resources = pod.spec.resources
    return resources is not None and any(
        is_pod_level(name) for name in (resources.requests or resources.limits or ())
    )


def _pod_level(
    resources: ResourceRequirements | None, total: Mapping[str, int], owner: str
) -> dict[str, int]:
    if resources is None:
        return {}
    # A pod-level limit counts as a request only if no container requests the resource.
    limits = {r: n for r, n in _read(resources.limits, owner).items() if not total.get(r)}
    wanted = {**limits, **_read(resources.requests, owner)}
    return {r: n for r, n in wanted.items() if is_pod_level(r)}


# ── resized in place ──


def has_allocated_resources(pod: Pod) -> bool:
    """Return whether a kubelet has reported allocated resources of *pod*, or that its resize is infeasible."""
    status = pod.status
    if status.conditions and _infeasible(pod):
        return True
    if status.resources is not None or status.allocated_resources is not None:
        return True
    for statuses in (status.container_statuses, status.init_container_statuses):
        for each in statuses or ():
            if each.resources is not None or each.allocated_resources is not None:
                return True
    return False


def _infeasible(pod: Pod) -> bool:
    """Return whether the node rejected the resize: the desired resources do not count then."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _most_of(pod: Pod, asked: dict[str, int], missing: Mapping[str, int], owner: str) -> dict[str, int]:
    """Return the largest of the containers' desired, allocated and actual resources."""
    status, refused = pod.status, _infeasible(pod)
    total = {} if refused else dict(asked)
    if status.allocated_resources is not None and status.resources is not None and status.resources.requests:
        raise_to(total, _read(status.allocated_resources, owner))
        raise_to(total, _read(status.resources.requests, owner))
        return total
    known = {
        each.name: each
        for each in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    }

    def given(container: Container) -> dict[str, int]:
        status = known.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return {**missing, **_read(status.allocated_resources, owner)}
        return {**missing, **({} if refused else _wanted(container.resources, owner))}

    def has(container: Container) -> dict[str, int]:
        status = known.get(container.name)
        if status is not None and status.resources is not None and status.resources.requests is not None:
            return {**missing, **_read(status.resources.requests, owner)}
        return given(container)

    raise_to(total, _together(pod, given))
    raise_to(total, _together(pod, has))
    return total


def _most_of_pod_level(pod: Pod, asked: dict[str, int], owner: str) -> dict[str, int]:
    """Return the same for pod-level resources."""
    resources = pod.status.resources
    if not asked or resources is None:
        return asked
    total = {} if _infeasible(pod) else dict(asked)
    raise_to(total, _read(resources.requests, owner))
    raise_to(total, _read(pod.status.allocated_resources, owner))
    return {resource: amount for resource, amount in total.items() if is_pod_level(resource)}


def host_ports(pod: Pod) -> Iterator[HostPort]:
    """Yield (hostIP, protocol, port) of every host port *pod* wants.

    >>> from weir.objects.core import Pod, read
    >>> port = {"containerPort": 80, "hostPort": 8080}
    >>> list(host_ports(read(Pod, {"spec": {"containers": [{"name": "a", "ports": [port]}]}})))
    [('0.0.0.0', 'TCP', 8080)]
    """
    sidecars = (container for container in pod.spec.init_containers or () if restarts(container))
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports or ():
            if port.host_port > 0:
                yield port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port


def node_allocatable(node: Node) -> Mapping[str, int] | None:
    """Return what *node* gives to pods, or None when it does not say (capacity stands in, as on creation)."""
    amounts = node.status.allocatable if node.status.allocatable is not None else node.status.capacity
    if amounts is None:
        return None
    try:
        return _amounts(tuple(amounts.items()))
    except RequestError:
        return _counted(_read(amounts, f"Node {node.name}"))  # says which node it is


@bounded(4096, longest=2048)
def _amounts(items: tuple[tuple[str, str | int | float], ...]) -> Amounts:
    return _counted(_read(dict(items), ""))


def show_amount(resource: str, amount: int) -> str:
    """Return *amount* as a quantity.

    >>> show_amount("cpu", 1500), show_amount("memory", 3 * 2**29), show_amount("nvidia.com/gpu", 4)
    ('1500m', '1536Mi', '4')
    """
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return next(_binary(amount))
    return str(amount)


def _binary(amount: int) -> Iterator[str]:
    for suffix, power in (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if amount and amount % (1 << power) == 0:
            yield f"{amount >> power}{suffix}"
    yield str(amount)
