"""Nodes that accept a workload's pod, as written or with other tolerations, by the scheduler's engine.

A workload is evaluated without its own pods, so that nodes full of them do not count against it. Workloads share one
node table; one with resource claims gets its own, because the devices its pods hold must be free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from weir.explain.admission import Admission, Admitted
from weir.explain.engine import EngineJudge, Engines
from weir.explain.subject import Subject
from weir.explain.workload import owned_pods
from weir.gates import Gates
from weir.objects.core import Node, Pod, Taint, Toleration
from weir.world import World

ZONE: Final = "topology.kubernetes.io/zone"


class Cluster:
    """What every question about one cluster shares: its nodes as columns, and its rules of admission."""

    def __init__(self, world: World, gates: Gates) -> None:
        self.world, self.gates = world, gates
        self.admission = Admission(world, gates)
        self.engines = Engines(world)


class Question:
    """One workload, in a cluster without its own pods."""

    def __init__(self, subject: Subject, cluster: Cluster) -> None:
        self.subject, self.world, self.gates = subject, cluster.world, cluster.gates
        self._admission = cluster.admission
        self._own = tuple(own_pods(subject, cluster.world))
        self._engines = cluster.engines
        written = subject.pod_spec
        if subject.claim_templates(0) or (isinstance(written, dict) and written.get("resourceClaims")):
            alone = cluster.world.overlay(without=self._own)
            self._engines = Engines(alone, templates=subject.claim_templates(0))
        self._fitting: dict[str, frozenset[str]] = {}

    @property
    def written(self) -> list[dict[str, Any]]:
        """The tolerations of the workload as they are written."""
        spec = self.subject.pod_spec
        return list((spec.get("tolerations") if isinstance(spec, dict) else None) or ())

    def admitted(self) -> Admitted:
        """Return the pod as the API server would store it, and what it says against it."""
        return self._admission.admit(self.subject, quota=False)

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
        asked = subject or self.subject
        key = msgspec.json.encode((asked.pod_spec or {}).get("tolerations") or []).decode()
        if key not in self._fitting:
            with self._engines.setting_aside(pod.key for pod in self._own):
                judge = self._judge(asked)
                self._fitting[key] = judge.fitting() if judge is not None else frozenset()
        return self._fitting[key]

    def fits_changed(self, nodes: Sequence[Node]) -> Iterator[bool]:
        """Yield for each of *nodes*, which differ from the cluster's, whether it takes a pod of the workload."""
        with self._engines.setting_aside(pod.key for pod in self._own):
            judge = self._judge(self.subject)
            for node in nodes:
                yield judge is not None and judge(node).fits

    def _judge(self, subject: Subject) -> EngineJudge | None:
        """Return the judge of nodes for *subject*, or None when no node could take it: it is rejected, or held."""
        admitted = self._admission.admit(subject, quota=False)
        if admitted.refused:
            return None
        judge = self._engines(admitted.pod, self._engines.world, self.gates)
        return None if judge.blockers() else judge

    def zones(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return the zones that some of *nodes* are in."""
        found = ((self.world.nodes[name].metadata.labels or {}).get(ZONE) for name in nodes)
        return frozenset(zone for zone in found if zone)


def own_pods(subject: Subject, world: World) -> Iterator[Pod]:
    """Yield the pods of the workload that are in the cluster."""
    yield from owned_pods(subject, world)
    if subject.kind == "Pod" and (stored := world.pods.get(f"{subject.namespace}/{subject.name}")):
        yield stored


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
