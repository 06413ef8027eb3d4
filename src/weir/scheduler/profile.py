"""Which plugins decide, in which order and with which weights?

Spec: core.md 3.4 "Default plugins, order and weights". A profile is a set of plugin objects over one table; binding
it to a pod class gives the class's own filters and scores, sorted by what they depend on: the node alone, the pods
on it, or whole domains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from weir.gates import Gates
from weir.objects.core import LabelSelector, TopologySpreadConstraint
from weir.objects.core import NodeAffinity as NodeAffinityView
from weir.scheduler.framework import Diagnosis
from weir.scheduler.node_table import Bools, Ints, NodeTable
from weir.scheduler.plugins.image_locality import BoundImageLocality, ImageLocality
from weir.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from weir.scheduler.plugins.node_affinity import BoundNodeAffinity, NodeAffinity
from weir.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from weir.scheduler.plugins.node_name import NodeName
from weir.scheduler.plugins.node_ports import NodePorts
from weir.scheduler.plugins.node_resources_balanced_allocation import (
    BoundBalancedAllocation,
    NodeResourcesBalancedAllocation,
)
from weir.scheduler.plugins.node_resources_fit import BoundNodeResourcesFit, FitArguments, NodeResourcesFit
from weir.scheduler.plugins.node_unschedulable import NodeUnschedulable
from weir.scheduler.plugins.pod_topology_spread import SYSTEM_DEFAULTS, PodTopologySpread
from weir.scheduler.plugins.taint_toleration import BoundTaintToleration, TaintToleration
from weir.scheduler.pod_class import PodClass
from weir.scheduler.pod_counts import PodCounts
from weir.taints.toleration import Evaluate

DEFAULT_WEIGHTS: Final[Mapping[str, int]] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DynamicResources": 2,
    "VolumeBinding": 1,
}


class PluginOfPods(Protocol):
    """A plugin whose answer hangs on more than nodes and their pods: volumes, device claims.

    Bound to a pod class it has `name`, `dynamic = True`, `prefilter() -> Status | None`, `codes(rows)` and
    `status(code)`, like the others; it is asked afresh for every attempt. It may have `attend(pod)`, which says for
    which pod of the class it is asked next, `normalised(feasible)`, which scores, and `reserve(node)`, asked once the
    node is chosen, which returns a Reservation or None. One that is `lazy` is only asked about rows that all
    others accept.
    """

    name: str

    def bind(self, pod: PodClass, table: NodeTable) -> Any | None:
        """Return the plugin for *pod*, or None when the pod has nothing it looks at."""


class PluginOfDevices(PluginOfPods, Protocol):
    """One that may serve what the node itself does not have."""

    def delegated(self, pod: PodClass) -> frozenset[str]:
        """Return the resources of *pod* that devices offer where the node has none."""

    def watch_delegated(self, pod: PodClass) -> Callable[[], bool] | None:
        """Return what tells whether that has changed since now; None when it never can."""


class Reservation(Protocol):
    """What a plugin promised for one pod on its node; weir.scheduler.prebind writes it down."""

    plugin: str

    def settled(self) -> bool:
        """Return whether the pod can be bound now; raise PluginError when it never can."""

    def end(self) -> bool | None:
        """Take the promises back: they are kept, or the pod was not placed; True when that may help others."""


class DefaultSelector(Protocol):
    """Gives the selector that pods without spread constraints are spread by."""

    version: int  #: changes whenever any answer may

    def __call__(self, pod: PodClass) -> LabelSelector | None: ...


@dataclass(frozen=True)
class ProfileArguments:
    """What a profile can be told."""

    name: str = "default-scheduler"
    disabled_filters: frozenset[str] = frozenset()
    disabled_scores: frozenset[str] = frozenset()
    filter_order: tuple[str, ...] = ()  #: the filters in another order than the usual one
    preempts: bool = True  #: whether less important pods may have to go
    frees_claims: bool = True  #: whether a claim that fits nowhere may be given up
    honours_gates: bool = True  #: whether pods wait for their scheduling gates
    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    fit: FitArguments = field(default_factory=FitArguments)
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    added_affinity: NodeAffinityView | None = None
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    spread_defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    system_spread_defaults: bool = True
    volume_shape: tuple[tuple[int, int], ...] = ()  #: (share of the storage, score 0–10); (): emptiest first
    bind_timeout_seconds: float = 600.0  #: how long claims for volumes may take to be bound
    claim_filter_seconds: float = (
        10.0  #: how long the search for devices on one node may take; 0: as long as it takes
    )
    claim_binding_seconds: float = 600.0  #: how long devices may take to be ready before a pod is bound
    candidate_share: int = 10  #: percent of the nodes where preemption might help that are tried
    least_candidates: int = 100  #: but at least so many
    upstream_reasons: bool = False
    percentage_of_nodes_to_score: int | None = None  #: None: look at all nodes; 0: Kubernetes' adaptive share


@dataclass
class Bound:
    """The plugins of one profile for one pod class."""

    filters: list[Any]  #: in the order they are asked
    weights: Mapping[str, int]
    taints: BoundTaintToleration | None
    affinity: BoundNodeAffinity | None
    fit: BoundNodeResourcesFit | None
    balanced: BoundBalancedAllocation | None
    images: BoundImageLocality | None
    domain_filters: list[Any]
    domain_scores: list[Callable[[Bools], Ints | None]]
    only: list[tuple[str, set[str]]]  #: PreFilter: plugins that leave only these nodes
    fused: bool  #: the defaults, for which there is a shorter way
    inter_pod: Any = None
    inter_pod_active: bool = False
    of_pods: list[Any] = field(default_factory=list)  #: plugins that look at this one pod: volumes, devices
    #: whether the default spread selector, or who offers an extended resource, has become another
    bind_again: Callable[[], bool] = lambda: False

    counters: list[Any] | None = None  #: of the metrics that every decision about the class adds to

    def __post_init__(self) -> None:
        movers = {id(plugin) for plugin in self.domain_filters}
        self.static_filters = [p for p in self.filters if not p.dynamic]
        self.dynamic_filters = [p for p in self.filters if p.dynamic and id(p) not in movers]
        said = self.affinity.unreadable if self.affinity is not None else ""
        #: why nodes cannot be scored for this class, or ""
        self.unreadable = f'running PreScore plugin "NodeAffinity": {said}' if said else ""

    @property
    def scoring(self) -> list[str]:
        """The plugins that score this class, by name."""
        kept = (self.taints, self.affinity, self.fit, self.balanced, self.images)
        return [plugin.name for plugin in kept if plugin is not None]

    @property
    def stale(self) -> bool:
        """Whether a term, a service or a device class that concerns this class has appeared since it was bound."""
        return bool(self.inter_pod.active() and not self.inter_pod_active) or self.bind_again()

    @property
    def moves_domains(self) -> bool:
        """Whether one placement can change the standing of many nodes at once."""
        return bool(self.domain_filters or self.domain_scores)


class Profile:
    """The plugins over one table."""

    def __init__(
        self,
        table: NodeTable,
        tally: PodCounts,
        gates: Gates,
        arguments: ProfileArguments | None = None,
        *,
        evaluate: Evaluate | None = None,
        default_selector: DefaultSelector | None = None,
        volumes: Sequence[PluginOfPods] = (),
        devices: Sequence[PluginOfDevices] = (),
    ) -> None:
        self.table, self.tally, self.gates = table, tally, gates
        self._default_selector = default_selector
        self._volumes, self._devices = tuple(volumes), tuple(devices)
        self.arguments = arguments or ProfileArguments()
        a = self.arguments
        self.node_name = NodeName()
        self.node_unschedulable = NodeUnschedulable(gates, evaluate)
        self.taint_toleration = TaintToleration(gates, evaluate, upstream_reason=a.upstream_reasons)
        self.node_affinity = NodeAffinity(gates, a.added_affinity)
        self.node_ports = NodePorts()
        self.fit = NodeResourcesFit(a.fit)
        self.balanced = NodeResourcesBalancedAllocation(a.balanced_resources)
        self.images = ImageLocality()
        self.declared_features = NodeDeclaredFeatures()
        self.spread = PodTopologySpread(
            tally,
            gates,
            self.taint_toleration,
            a.spread_defaults,
            system_defaults=a.system_spread_defaults,
            default_selector=default_selector,
        )
        self.inter_pod = InterPodAffinity(
            tally,
            a.hard_pod_affinity_weight,
            ignore_preferred_of_existing=a.ignore_preferred_terms_of_existing_pods,
        )

    def _filters(self, name: str) -> bool:
        return name not in self.arguments.disabled_filters

    def _scores(self, name: str) -> bool:
        return name not in self.arguments.disabled_scores and self.arguments.weights.get(name, 0) > 0

    def bind(self, pod: PodClass) -> Bound:
        """Return the plugins ready for *pod*."""
        table = self.table
        taints = self.taint_toleration.bind(pod, table)
        affinity = self.node_affinity.bind(pod, table)
        delegated = self._delegated(pod)
        fit = self.fit.bind(pod, table, delegated)
        ports = self.node_ports.bind(pod, table)
        spread = self.spread.bind(pod, table)
        inter_pod = self.inter_pod.bind(pod, table)
        name = self.node_name.bind(pod, table)
        volumes = [bound for p in self._volumes if (bound := p.bind(pod, table)) is not None]
        devices = [bound for p in self._devices if (bound := p.bind(pod, table)) is not None]
        filters: list[Any] = [
            plugin
            for plugin, there in (
                (name, name is not None),
                (self.node_unschedulable.bind(pod, table), True),
                (taints, True),
                (affinity, affinity.filters),
                (ports, True),
                (fit, True),
                *((volume, True) for volume in volumes),
                (spread, spread is not None and spread.filters),
                (inter_pod, inter_pod.active()),
                *((device, True) for device in devices),
                (self.declared_features.bind(pod, table), True),
            )
            if plugin is not None and there and self._filters(plugin.name)
        ]
        if self.arguments.filter_order:
            filters.sort(key=lambda plugin: self.arguments.filter_order.index(plugin.name))
        domain_filters = [p for p in filters if p in (spread, inter_pod) or p in volumes or p in devices]
        only = [
            (plugin.name, names)
            for plugin in filters
            if plugin in (name, affinity) and (names := plugin.only()) is not None
        ]
        domain_scores: list[Callable[[Bools], Ints | None]] = []
        if spread is not None and spread.scores and self._scores("PodTopologySpread"):
            weight = self.arguments.weights["PodTopologySpread"]
            domain_scores.append(lambda feasible: weight * spread.normalised(feasible))
        domain_scores.extend(
            partial(self._own_score, plugin)
            for plugin in (*volumes, *devices)
            if hasattr(plugin, "normalised") and self._filters(plugin.name) and self._scores(plugin.name)
        )
        if inter_pod.active() and self._scores("InterPodAffinity"):
            domain_scores.append(lambda feasible: self._inter_pod_score(inter_pod, feasible))
        balanced = self.balanced.bind(pod, table) if self._scores("NodeResourcesBalancedAllocation") else None
        fused = (
            not ports
            and not delegated
            and self._filters("NodeResourcesFit")
            and self._scores("NodeResourcesFit")
            and self.arguments.fit == FitArguments()
            and self.arguments.balanced_resources == ("cpu", "memory")
            and self.arguments.weights.get("NodeResourcesFit") == 1
            and (balanced is None or self.arguments.weights.get("NodeResourcesBalancedAllocation") == 1)
        )
        return Bound(
            filters,
            self.arguments.weights,
            taints if self._scores("TaintToleration") else None,
            affinity if self._scores("NodeAffinity") else None,
            fit if self._scores("NodeResourcesFit") else None,
            balanced,
            self.images.bind(pod, table) if self._scores("ImageLocality") else None,
            domain_filters,
            domain_scores,
            only,
            fused,
            inter_pod,
            inter_pod.active(),
            [plugin for plugin in filters if plugin in volumes or plugin in devices],
            self._watch(pod),
        )

    def loses_claim_state(self, diagnosis: Diagnosis) -> bool:
        """Whether Kubernetes would trip over missing state and say `not found` instead of trying preemption.

        DynamicResources' PostFilter reads what its PreFilter left; when an earlier PreFilter ends the cycle there is
        nothing. An accident, so it is told only in the upstream reason style (core.md D-37).
        """
        return (
            self.arguments.upstream_reasons
            and bool(diagnosis.prefilter)
            and "DynamicResources" not in diagnosis.plugins
            and self.gates.enabled("DynamicResourceAllocation")
            and self._filters("DynamicResources")
        )

    def _delegated(self, pod: PodClass) -> frozenset[str]:
        """Return the resources of *pod* that devices offer instead of the node."""
        if not self._filters("DynamicResources"):
            return frozenset()
        return frozenset[str]().union(*(plugin.delegated(pod) for plugin in self._devices))

    def _watch(self, pod: PodClass) -> Callable[[], bool]:
        """Return what tells whether the plugins have to be bound to *pod* anew."""
        selector = self._watch_selector(pod)
        offered = [watch for plugin in self._devices if (watch := plugin.watch_delegated(pod)) is not None]
        return (lambda: selector() or any(watch() for watch in offered)) if offered else selector

    def _watch_selector(self, pod: PodClass) -> Callable[[], bool]:
        """Return what tells whether the default selector of *pod* has changed since now."""
        selector_of = self._default_selector
        if selector_of is None or pod.spread:
            return lambda: False
        version, selector = selector_of.version, selector_of(pod)

        def changed() -> bool:
            nonlocal version
            if version == selector_of.version:
                return False
            version = selector_of.version
            return selector_of(pod) != selector

        return changed

    def _own_score(self, plugin: Any, feasible: Bools) -> Ints | None:
        score: Ints | None = plugin.normalised(feasible)
        return None if score is None else self.arguments.weights[plugin.name] * score

    def _inter_pod_score(self, plugin: Any, feasible: Bools) -> Ints | None:
        raw = plugin.raw(slice(0, self.table.size))
        if raw is None or not feasible.any():
            return None
        open_raw = raw[feasible]
        high, low = int(open_raw[open_raw.argmax()]), int(open_raw[open_raw.argmin()])
        if high == low:
            return None
        weight = self.arguments.weights["InterPodAffinity"]
        scaled = (raw - low) / (high - low)
        scaled *= 100.0
        score = scaled.astype(np.int64)
        score *= weight
        return score
