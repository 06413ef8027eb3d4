"""Rejection reasons about the pods of a topology domain.

Spec: core.md 3.6, PodTopologySpread and InterPodAffinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from weir.scheduler.reasons import Reason


@dataclass(frozen=True, slots=True)
class TooSkewed(Reason):
    """One more pod in the node's domain would be too many against the emptiest domain."""

    kind: ClassVar[str] = "topology-spread"
    plugin: ClassVar[str] = "PodTopologySpread"
    words: ClassVar[str] = "node(s) didn't match pod topology spread constraints"
    constraint: int  #: its index among the pod's constraints; -1: one of the scheduler's defaults
    topology_key: str
    domain: str
    here: int  #: matching pods in the domain, the new one included
    least: int  #: in the domain with the fewest
    max_skew: int

    def data(self) -> dict[str, Any]:
        return {
            "constraint": self.constraint,
            "topologyKey": self.topology_key,
            "domain": self.domain,
            "pods": self.here,
            "least": self.least,
            "maxSkew": self.max_skew,
        }

    @property
    def group(self) -> tuple[Any, ...]:
        return (self.kind, self.constraint, self.here - self.least)


@dataclass(frozen=True, slots=True)
class NoTopologyDomain(Reason):
    """The node lacks the label that a spread constraint spreads over."""

    kind: ClassVar[str] = "topology-spread"
    plugin: ClassVar[str] = "PodTopologySpread"
    words: ClassVar[str] = "node(s) didn't match pod topology spread constraints (missing required label)"
    constraint: int
    topology_key: str


@dataclass(frozen=True, slots=True)
class NoPodNear(Reason):
    """The node's domain has no pod that a required affinity term selects."""

    kind: ClassVar[str] = "pod-affinity"
    plugin: ClassVar[str] = "InterPodAffinity"
    words: ClassVar[str] = "node(s) didn't match pod affinity rules"
    term: int  #: its index among the required terms
    topology_key: str

    def data(self) -> dict[str, Any]:
        return {"part": "podAffinity", "term": self.term, "topologyKey": self.topology_key}


@dataclass(frozen=True, slots=True)
class AvoidedPodNear(Reason):
    """The node's domain has a pod that a required anti-affinity term avoids."""

    kind: ClassVar[str] = "pod-affinity"
    plugin: ClassVar[str] = "InterPodAffinity"
    words: ClassVar[str] = "node(s) didn't match pod anti-affinity rules"
    term: int
    topology_key: str

    def data(self) -> dict[str, Any]:
        return {"part": "podAntiAffinity", "term": self.term, "topologyKey": self.topology_key}


@dataclass(frozen=True, slots=True)
class AvoidedByPodNear(Reason):
    """The node's domain has a pod whose own anti-affinity avoids this one."""

    kind: ClassVar[str] = "pod-affinity"
    plugin: ClassVar[str] = "InterPodAffinity"
    words: ClassVar[str] = "node(s) didn't satisfy existing pods anti-affinity rules"
    topology_key: str
