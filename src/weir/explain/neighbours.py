"""What do the other pods say? Topology spread and pod affinity, asked of the scheduler's own plugins.

These two move with every pod of the cluster, so the scheduler's engine answers: one table of the World, asked anew
for every hypothetical pod. It is only built where somebody cares: a pod that spreads or has affinities, or a cluster
in which some pod avoids others.
What surprises: a node that refuses for other reasons is not asked, as the scheduler would not; once those are
answered, this is asked again, so a proposed change is proven against it as well.
Not here: every other filter (weir.explain.node).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from weir.explain.node import Judge, JudgeFor
from weir.explain.verdict import NodeVerdict, OtherPods, Reason, Spread
from weir.gates import Gates
from weir.objects.core import Node, Pod
from weir.world import World

if TYPE_CHECKING:
    from weir.scheduler.cycle import Engine
    from weir.scheduler.framework import Status

_REASONS: Mapping[str, type[Spread] | type[OtherPods]] = {
    "PodTopologySpread": Spread,
    "InterPodAffinity": OtherPods,
}


def matter(pod: Pod, world: World) -> bool:
    """Return whether other pods have a say in where *pod* goes, beyond the room they take."""
    spread = any(c.when_unsatisfiable == "DoNotSchedule" for c in pod.spec.topology_spread_constraints or ())
    affinity = pod.spec.affinity
    asks = affinity is not None and any(
        part is not None and part.required for part in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )
    return spread or asks or any(_avoids(other) for other in world.pods.values())


def selects_namespaces(pod: Pod) -> bool:
    """Return whether *pod* has an affinity that chooses namespaces by labels, which no snapshot here has."""
    affinity = pod.spec.affinity
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return any(term.namespace_selector is not None for part in parts if part for term in part.required or ())


def _avoids(pod: Pod) -> bool:
    avoided = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return avoided is not None and bool(avoided.required) and not pod.terminated


class Neighbours:
    """Makes judges that also ask the scheduler's engine; one engine serves all of them."""

    def __init__(self, judge: JudgeFor, world: World, without: str = "") -> None:
        self._judge, self._world, self._without = judge, world, without
        self._engines: dict[Gates, Engine] = {}

    def __call__(self, pod: Pod, world: World, gates: Gates) -> Judge:
        return _AskingNeighbours(self._judge(pod, world, gates), pod, world, self._engine(gates))

    def _engine(self, gates: Gates) -> Engine:
        if gates not in self._engines:
            from weir.scheduler.cycle import Engine

            engine = Engine(gates)
            for node in self._world.nodes.values():
                engine.table.put_node(node)
            for pod in self._world.pods.values():
                there = pod.spec.node_name in self._world.nodes and not pod.terminated
                if there and pod.key != self._without:
                    engine.assume(pod.key, pod, pod.spec.node_name)
            self._engines[gates] = engine
        return self._engines[gates]


class _AskingNeighbours:
    def __init__(self, judge: Judge, pod: Pod, world: World, engine: Engine) -> None:
        self._judge, self._pod, self._world, self._engine = judge, pod, world, engine
        self._statuses: Mapping[str, Status] | None = None

    def blockers(self) -> tuple[Reason, ...]:
        return self._judge.blockers()

    def __call__(self, node: Node) -> NodeVerdict:
        verdict = self._judge(node)
        if verdict.reasons or self._pod.spec.node_name:  # a pod that names its node meets no scheduler
            return verdict
        status = self._ask(node).get(node.name)
        made = _REASONS.get(status.plugin) if status else None
        if status is None or made is None:
            return verdict
        resolvable = status.code.value == "Unschedulable"
        return replace(verdict, reasons=tuple(made(text, resolvable) for text in status.reasons))

    def _ask(self, node: Node) -> Mapping[str, Status]:
        present = self._world.nodes.get(node.name)
        if node is not present and present is not None:  # a hypothetical node: put it in, ask, put it back
            self._engine.table.put_node(node)
            try:
                return self._engine.statuses(self._pod)
            finally:
                self._engine.table.put_node(present)
        if self._statuses is None:
            self._statuses = self._engine.statuses(self._pod)
        return self._statuses
