"""Nodes that accept a workload's pod, as written or with other tolerations, by the scheduler's engine.

A workload is evaluated without its own pods, so that nodes full of them do not count against it. Workloads share one
node table; one with resource claims gets its own, because the devices its pods hold must be free. Another value in a
toleration changes which taints are tolerated and nothing else: the engine is asked once which nodes take the pod
whatever their taints, and taints decide among those. A spread constraint that honours taints is asked anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from weir.advise.node_taints import Bools, NodeTaints
from weir.explain.admission import Admission, Admitted
from weir.explain.engine import EngineJudge, Engines
from weir.explain.subject import Subject
from weir.explain.workload import owned_keys
from weir.gates import Gates
from weir.objects.core import Node, Taint, Toleration
from weir.taints.operators import Comparison, find_comparison
from weir.world import World

ZONE: Final = "topology.kubernetes.io/zone"


class Cluster:
    """What every question about one cluster shares: its nodes as columns, and its rules of admission."""

    def __init__(self, world: World, gates: Gates) -> None:
        self.world, self.gates = world, gates
        self.admission = Admission(world, gates)
        self.engines = Engines(world)
        self.taints = NodeTaints(world.nodes.values(), gates)
        distinct = {
            (each.key, each.value, each.effect) for node in world.nodes.values() for each in node.taints
        }
        self.every_taint = [Taint(*identity) for identity in sorted(distinct)]
        self.names = list(world.nodes)
        self._rows = {name: row for row, name in enumerate(self.names)}
        self._steps: dict[tuple[str, str, str], list[str]] = {}
        zones = [(node.metadata.labels or {}).get(ZONE) for node in world.nodes.values()]
        #: each zone with its nodes
        self.zones = {zone: np.array([each == zone for each in zones]) for zone in set(zones) if zone}

    def mask(self, names: frozenset[str]) -> Bools:
        """Return the nodes *names* as rows."""
        mask = np.zeros(len(self.names), np.bool_)
        mask[[self._rows[name] for name in names]] = True
        return mask

    def steps(self, toleration: Toleration) -> list[str]:
        """Return the thresholds that make a difference for *toleration*, tightest first; see `candidates`."""
        key = (toleration.key, toleration.operator, toleration.effect)
        if key not in self._steps:
            self._steps[key] = candidates(self.world.nodes.values(), toleration)
        return self._steps[key]


class Question:
    """One workload, in a cluster without its own pods."""

    def __init__(self, subject: Subject, cluster: Cluster) -> None:
        self.subject, self.world, self.gates = subject, cluster.world, cluster.gates
        self.cluster = cluster
        self.own = tuple(own_pods(subject, cluster.world))  #: keys
        self._engines = cluster.engines
        written = subject.pod_spec
        if subject.claim_templates(0) or (isinstance(written, dict) and written.get("resourceClaims")):
            self._engines = Engines(self.world_without_own(), templates=subject.claim_templates(0))
        self._fitting: dict[str, frozenset[str]] = {}

    def world_without_own(self) -> World:
        """Return the world without the workload's own pods."""
        return self.world.overlay(without=map(self.world.pods.__getitem__, self.own))

    @property
    def written(self) -> list[dict[str, Any]]:
        """The tolerations of the workload as they are written."""
        spec = self.subject.pod_spec
        return list((spec.get("tolerations") if isinstance(spec, dict) else None) or ())

    @cached_property
    def admitted(self) -> Admitted:
        """The pod as the API server would store it, and what it says against it."""
        return self.cluster.admission.admit(self.subject, quota=False)

    def with_tolerations(self, tolerations: Sequence[dict[str, Any]]) -> Subject:
        """Return the workload with other tolerations."""
        subject, spec = self.subject.edited()
        if tolerations:
            spec["tolerations"] = list(tolerations)
        else:
            spec.pop("tolerations", None)
        return subject

    def with_value(self, index: int, value: str) -> Subject:
        """Return the workload with another value in one toleration."""
        return self.with_tolerations(
            [{**each, "value": value} if at == index else each for at, each in enumerate(self.written)]
        )

    def fitting(self, subject: Subject | None = None) -> frozenset[str]:
        """Return the nodes that take a pod of the workload, or of *subject*, a change of it."""
        if subject is None:
            return self._fitting_now
        key = msgspec.json.encode((subject.pod_spec or {}).get("tolerations") or []).decode()
        if key not in self._fitting:
            self._fitting[key] = self._fitting_pod(self.cluster.admission.admit(subject, quota=False))
        return self._fitting[key]

    @cached_property
    def _fitting_now(self) -> frozenset[str]:
        if self._whatever_taints is None:
            return self._fitting_pod(self.admitted)
        tolerated = self.cluster.taints.tolerated_by(self.admitted.pod.tolerations)
        return self.node_names(self._whatever_taints & self.cluster.taints.open_rows(tolerated))

    def fitting_with(self, index: int, value: str) -> Bools:
        """Return the nodes, as rows, that take a pod with another value in the toleration *index*."""
        others = self._others(index)
        if others is None or self._whatever_taints is None:
            return self.cluster.mask(self.fitting(self.with_value(index, value)))
        changed = msgspec.structs.replace(read_tolerations(self.written)[index], value=value)
        taints = self.cluster.taints
        return self._whatever_taints & taints.open_rows(taints.tolerated_by((*others, changed)))

    def node_names(self, rows: Bools) -> frozenset[str]:
        """Return the names of the nodes *rows*."""
        return frozenset(map(self.cluster.names.__getitem__, np.flatnonzero(rows).tolist()))

    @cached_property
    def _whatever_taints(self) -> Bools | None:
        """The nodes that take the pod whatever their taints are; None where tolerations decide more than taints."""
        pod = self.admitted.pod
        constraints = pod.spec.topology_spread_constraints or ()
        if self.admitted.refused or pod.spec.node_name:
            return None
        if any(each.node_taints_policy == "Honor" for each in constraints):
            return None
        tolerating = msgspec.structs.replace(pod.spec, tolerations=(Toleration(operator="Exists"),))
        names = self._fitting_pod(Admitted(msgspec.structs.replace(pod, spec=tolerating)))
        return self.cluster.mask(names) if names else None  # none: a filter may have failed

    def _others(self, index: int) -> list[Toleration] | None:
        """Return what the pod tolerates beside the toleration *index*; None when that is not stored as written."""
        tolerations = list(self.admitted.pod.tolerations)
        written = read_tolerations(self.written)[index]
        if written not in tolerations:
            return None
        tolerations.remove(written)
        return tolerations

    def _fitting_pod(self, admitted: Admitted) -> frozenset[str]:
        with self._engines.setting_aside(self.own):
            judge = self._judge(admitted)
            return judge.fitting() if judge is not None else frozenset()

    def fits_changed(self, nodes: Sequence[Node]) -> Iterator[bool]:
        """Yield for each of *nodes*, which differ from the cluster's, whether it takes a pod of the workload."""
        with self._engines.setting_aside(self.own):
            judge = self._judge(self.admitted)
            for node in nodes:
                yield judge is not None and judge(node).fits

    def _judge(self, admitted: Admitted) -> EngineJudge | None:
        """Return the judge of nodes for a pod, or None when no node could take it: it is rejected, or held."""
        if admitted.refused:
            return None
        judge = self._engines(admitted.pod, self._engines.world, self.gates)
        return None if judge.blockers() else judge

    def zones(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return the zones that some of *nodes* are in."""
        mask = self.cluster.mask(nodes)
        return frozenset(zone for zone, rows in self.cluster.zones.items() if (mask & rows).any())


def own_pods(subject: Subject, world: World) -> Iterator[str]:
    """Yield the keys of the workload's pods that are in the cluster."""
    yield from owned_keys(subject, world)
    if subject.kind == "Pod" and (key := f"{subject.namespace}/{subject.name}") in world.pods:
        yield key


def read_tolerations(written: Sequence[dict[str, Any]]) -> tuple[Toleration, ...]:
    """Return tolerations as views; null is what is not written."""
    entries = [{key: value for key, value in (entry or {}).items() if value is not None} for entry in written]
    return tuple(msgspec.convert(entries, list[Toleration]))


def with_taint_value(node: Node, taint: Taint, value: str) -> Node:
    """Return *node* with another value in one of its taints."""
    taints = tuple(
        msgspec.structs.replace(each, value=value)
        if (each.key, each.value, each.effect) == (taint.key, taint.value, taint.effect)
        else each
        for each in node.taints
    )
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints))


def candidates(nodes: Iterable[Node], toleration: Toleration) -> list[str]:
    """Return the thresholds that make a difference for *toleration*, tightest first.

    Of the values that nodes have, each is taken by one of them and by all that follow.
    """
    comparison = find_comparison(toleration.operator)
    if comparison is None:
        return []
    values = {
        taint.value
        for node in nodes
        for taint in node.taints
        if taint.key == toleration.key and toleration.effect in ("", taint.effect)
    }
    return ordered({limit for value in values if (limit := comparison.limit_for(value))}, comparison)


def ordered(limits: set[str], comparison: Comparison) -> list[str]:
    """Return limits tightest first; of two spellings of one version the shorter one.

    >>> from weir.taints.operators import OPERATORS
    >>> ordered({"5", "10", "7"}, OPERATORS["Gt"]), ordered({"1.10.0", "1.9.0"}, OPERATORS["SemverLt"])
    (['10', '7', '5'], ['1.9.0', '1.10.0'])
    """
    parse = comparison.scale.parse_label
    by_name = sorted(limits, key=lambda each: (len(each), each))
    ranked = sorted(by_name, key=parse, reverse=comparison.direction > 0)
    return [each for at, each in enumerate(ranked) if not at or parse(each) != parse(ranked[at - 1])]
