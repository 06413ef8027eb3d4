"""Settings of one profile: plugins, order, weights and arguments, with Kubernetes' defaults.

Spec: core.md 3.4 "Default plugins, order and weights", 3.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from weir.objects.core import NodeAffinity, TopologySpreadConstraint

#: What a pod without constraints of its own gets, with the selector of its controller and services.
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(
        topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway", max_skew=3
    ),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway", max_skew=5
    ),
)


Strategy = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]


@dataclass(frozen=True)
class FitArguments:
    """The configuration of NodeResourcesFit."""

    strategy: Strategy = "LeastAllocated"
    weights: Mapping[str, int] | None = None  #: resource → weight; None: cpu 1, memory 1
    shape: Sequence[tuple[int, int]] = ((0, 0), (100, 10))  #: (utilisation, score 0–10) points
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()

    @property
    def scored(self) -> Mapping[str, int]:
        return {"cpu": 1, "memory": 1} if self.weights is None else self.weights

    def ignores(self, resource: str) -> bool:
        return resource in self.ignored_resources or resource.partition("/")[0] in self.ignored_groups


@dataclass(frozen=True)
class ProfileArguments:
    """The settings of one profile."""

    name: str = "default-scheduler"
    disabled_filters: frozenset[str] = frozenset()
    disabled_scores: frozenset[str] = frozenset()
    filter_order: tuple[str, ...] = ()  #: the filters in another order than the registry's
    preempts: bool = True  #: whether less important pods may have to go
    frees_claims: bool = True  #: whether a claim that fits nowhere may be given up
    honours_gates: bool = True  #: whether pods wait for their scheduling gates
    weights: Mapping[str, int] | None = None  #: of scores, by plugin; None: the registry's
    fit: FitArguments = field(default_factory=FitArguments)
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    added_affinity: NodeAffinity | None = None
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    spread_defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    system_spread_defaults: bool = True
    volume_shape: tuple[tuple[int, int], ...] = ()  #: (share of the storage, score 0–10); (): emptiest first
    bind_timeout_seconds: float = 600.0  #: how long claims for volumes may take to be bound
    claim_filter_seconds: float = 10.0  #: for the search of devices on one node; 0: as long as it takes
    claim_binding_seconds: float = 600.0  #: how long devices may take to be ready before a pod is bound
    candidate_share: int = 10  #: percent of the nodes where preemption might help that are tried
    least_candidates: int = 100  #: but at least so many
    upstream_reasons: bool = False
    percentage_of_nodes_to_score: int | None = None  #: None: look at all nodes; 0: Kubernetes' adaptive share
    plugin_config: Mapping[str, Any] = field(
        default_factory=dict
    )  #: arguments of plugins out of tree, as written
