"""The Edit interface, and distances between values.

An edit to the pod is made on its document, so that what is proven is what is shown. An edit's cost is how much more
it permits: exact values are cheap; requesting less costs more; what affects other pods (uncordoning, removing a
taint, a gate) more still, and tolerating node conditions or dropping a request most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from weir.gates import Gates
from weir.objects.core import Node
from weir.values.integer import IntegerError, parse_int64
from weir.values.semver import find_tolerant
from weir.world import World


@dataclass(frozen=True)
class Edit:
    """One change; `cost` orders edits by how much they permit."""

    side: ClassVar[str] = "pod"

    @property
    def cost(self) -> float:
        raise NotImplementedError

    def say(self) -> str:
        """Return the change as one imperative sentence."""
        raise NotImplementedError

    def includes(self, other: Edit) -> bool:
        """Return whether it changes all that *other* does, and maybe more."""
        return self == other

    def on_pod(self, spec: dict[str, Any]) -> None:
        """Make the change in the pod spec of a document."""

    def on_node(self, node: Node) -> Node:
        """Return *node* with the change made."""
        return node

    def on_world(self, world: World) -> World:
        """Return *world* with a change made that is neither the pod's nor a node's."""
        return world

    def on_gates(self, gates: Gates) -> Gates:
        """Return *gates* with the change made."""
        return gates

    @property
    def node(self) -> str:
        """The node it changes, or ""."""
        return ""

    @property
    def command(self) -> str:
        """The command that makes the change, or "" when a patch does."""
        return ""

    @property
    def manifest(self) -> dict[str, Any]:
        """The object that has to be created, or {}."""
        return {}

    def patch(self, world: World) -> dict[str, Any]:
        """Return the other object that changes, neither pod nor node, as a merge patch that names it; {}: none."""
        return {}

    def original(self, world: World) -> dict[str, Any]:
        """Return the object that `patch` changes, as it is."""
        return {}

    @property
    def order(self) -> tuple[int, ...]:
        """Where it is made among others: removals of list entries from the last to the first."""
        return (0,)


def distance_between(actual: str, threshold: str) -> float:
    """Return how far two values are apart, from 0 (equal) to 1 (not comparable, or very far)."""
    try:
        value, limit = parse_int64(actual), parse_int64(threshold)
    except IntegerError:
        version, wanted = find_tolerant(actual), find_tolerant(threshold)
        if version is None or wanted is None:
            return 1.0
        parts = zip(
            (version.major, version.minor, version.patch),
            (wanted.major, wanted.minor, wanted.patch),
            strict=True,
        )
        return next((share for share, (a, b) in zip((0.9, 0.5, 0.2), parts, strict=True) if a != b), 0.1)
    return min(abs(value - limit) / max(abs(limit), abs(value), 1), 1.0)
