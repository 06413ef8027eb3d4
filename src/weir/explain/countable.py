"""Clamps amounts that the node table's columns cannot hold, without changing results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from weir.objects.core import Container, Node, Pod
from weir.objects.requests import PODS
from weir.values.quantity import find_quantity
from weir.world import World

#: Assumed for nodes without allocatable: more than any pod requests, and small enough to multiply.
PLENTY: Final = {"cpu": str(2**40), PODS: str(2**40)}
PLENTY_OF_THE_REST: Final = str(2**50)


def countable(world: World) -> World:
    """Return *world* with the amounts of nodes and pods cut to what the engine can count."""
    nodes = map(countable_node, world.nodes.values())
    return world.overlay(*nodes, *(countable_pod(pod, 1) for pod in world.pods.values()))


def countable_node(node: Node) -> Node:
    """Return *node* with its amounts cut to what the engine can count."""
    status = msgspec.structs.replace(
        node.status,
        allocatable=_cut(node.status.allocatable, 1),
        capacity=_cut(node.status.capacity, 1),
    )
    return msgspec.structs.replace(node, status=status)


def countable_pod(pod: Pod, times: int) -> Pod:
    """Return *pod* with every amount cut to *times* the most a node can have."""

    def cut(container: Container) -> Container:
        resources = container.resources
        if resources is None:
            return container
        less = msgspec.structs.replace(
            resources, requests=_cut(resources.requests, times), limits=_cut(resources.limits, times)
        )
        return msgspec.structs.replace(container, resources=less)

    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(cut, pod.spec.containers)),
        init_containers=tuple(map(cut, pod.spec.init_containers or ())) or None,
        overhead=_cut(pod.spec.overhead, times),
    )
    if spec.resources is not None:
        whole = spec.resources
        less = msgspec.structs.replace(
            whole, requests=_cut(whole.requests, times), limits=_cut(whole.limits, times)
        )
        spec = msgspec.structs.replace(spec, resources=less)
    return msgspec.structs.replace(pod, spec=spec)


def _cut(amounts: Mapping[str, Any] | None, times: int) -> dict[str, Any] | None:
    if amounts is None:
        return None
    cut: dict[str, Any] = {}
    for name, amount in amounts.items():
        quantity, most = find_quantity(str(amount)), times * int(PLENTY.get(name, PLENTY_OF_THE_REST))
        cut[name] = str(most) if quantity is not None and quantity.value > most else amount
    return cut
