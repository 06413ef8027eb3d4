"""Taints that no workload tolerates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weir.gates import Gates
from weir.objects.core import Taint, Toleration
from weir.taints.toleration import BLOCKING, find_tolerating
from weir.taints.wellknown import OWN_PREFIXES
from weir.world import World


@dataclass(frozen=True)
class UntoleratedTaint:
    """A taint that keeps every workload off some nodes."""

    taint: Taint
    nodes: tuple[str, ...]


def untolerated_taints(
    world: World, workloads: Iterable[tuple[Toleration, ...]], gates: Gates
) -> list[UntoleratedTaint]:
    """Return the taints that neither a pod of *world* nor one of *workloads* tolerates, most nodes first."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in world.nodes.values():
        for taint in node.taints:
            if taint.effect in BLOCKING and not taint.key.startswith(OWN_PREFIXES):
                found.setdefault((taint.key, taint.value, taint.effect), []).append(node.name)
    lists = {*workloads, *(pod.tolerations for pod in world.pod_templates())}
    untolerated = [
        UntoleratedTaint(Taint(*identity), tuple(names))
        for identity, names in found.items()
        if not any(find_tolerating(tolerations, Taint(*identity), gates) for tolerations in lists)
    ]
    return sorted(untolerated, key=lambda each: (-len(each.nodes), str(each.taint)))
