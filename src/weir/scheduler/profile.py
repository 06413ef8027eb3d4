"""A profile: a set of plugins over one node table, instantiated per pod class.

Spec: core.md 3.4 "Default plugins, order and weights". The class's filters and scores are sorted by what their
results depend on (framework.Scope): the node alone, the pods on it, or the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weir.scheduler.framework import (
    MAX_NODE_SCORE,
    ClusterScorePlugin,
    Diagnosis,
    Extensions,
    FilterPlugin,
    Handle,
    LazyFilterPlugin,
    Normalize,
    PostFilterPlugin,
    PreFilterPlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
    SpreadPlugin,
)
from weir.scheduler.node_columns import Bools, Ids, Ints
from weir.scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from weir.scheduler.plugins.registry import IN_TREE_REGISTRY, Registry
from weir.scheduler.pod_class import PodClass
from weir.scheduler.profile_arguments import ProfileArguments as ProfileArguments
from weir.scheduler.profiling import PluginProfiler
from weir.scheduler.queueing_hints import RegisteredEvents
from weir.scheduler.resource_scores import DefaultResources, default_resources


@dataclass
class ClassPlugins:
    """The plugins of one profile for one pod class."""

    filters: list[FilterPlugin] = field(default_factory=list)  #: in execution order
    pre_filters: list[PreFilterPlugin] = field(default_factory=list)
    #: PreFilter: plugins that leave only these nodes
    node_names: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    post_filters: list[PostFilterPlugin] = field(default_factory=list)
    pre_score: str = ""  #: why nodes cannot be scored for this class, or ""
    scores: list[tuple[ScorePlugin, int]] = field(default_factory=list)  #: with their weights
    cluster_scores: list[tuple[ClusterScorePlugin, int]] = field(default_factory=list)
    reserves: list[ReservePlugin] = field(default_factory=list)
    stale_checks: list[Callable[[], bool]] = field(default_factory=list)
    fused: bool = True  #: the default resource plugins may be evaluated in one step
    counters: list[Any] | None = None  #: of the metrics that every decision about the class adds to

    def __post_init__(self) -> None:
        self.node_filters = [plugin for plugin in self.filters if plugin.scope is Scope.NODE]
        self.pods_filters = [plugin for plugin in self.filters if plugin.scope is Scope.PODS]
        self.cluster_filters = [p for p in self.filters if p.scope in (Scope.CLUSTER, Scope.SEARCH)]
        #: scores that the node object alone decides, final ones and those to be normalized
        self.node_scores = self._scores(Scope.NODE, normalized=False)
        self.normalized_scores = self._scores(Scope.NODE, normalized=True)
        self.pods_scores = self._scores(Scope.PODS, normalized=False)
        for plugin, weight in self._scores(Scope.PODS, normalized=True):
            self.cluster_scores.append((_Normalized(plugin), weight))
        #: set when the plugins that look at pods on nodes are those there is a faster twin of
        self.default_resources: DefaultResources | None = (
            default_resources(self.pods_filters, self.pods_scores) if self.fused else None
        )

        #: the filter that may evaluate the best nodes first (weir.scheduler.best_first), if any
        self.lazy_filter = self._lazy_filter()
        #: the plugin that treats nodes alike by their labels (weir.scheduler.best_by_domain), if no other one looks at
        #: all nodes; with the weight of its scores
        self.spread = self._spread()

    def _lazy_filter(self) -> LazyFilterPlugin | None:
        if len(self.cluster_filters) != 1 or self.pre_score:
            return None
        (search,) = self.cluster_filters
        others = [score for score, _ in self.cluster_scores if score.name != search.name]
        return search if not others and isinstance(search, LazyFilterPlugin) else None

    def _spread(self) -> tuple[SpreadPlugin, int] | None:
        looking = {
            id(plugin): plugin for plugin in (*self.cluster_filters, *(p for p, _ in self.cluster_scores))
        }
        if len(looking) != 1 or self.pre_score:
            return None
        (plugin,) = looking.values()
        if not isinstance(plugin, SpreadPlugin) or not plugin.topology_keys:
            return None
        if plugin.filters and not self.cluster_filters:
            return None  # a profile in which it only scores
        return plugin, self.cluster_scores[0][1] if self.cluster_scores else 0

    def _scores(self, scope: Scope, *, normalized: bool) -> list[tuple[ScorePlugin, int]]:
        return [
            (plugin, weight)
            for plugin, weight in self.scores
            if plugin.scope is scope and (plugin.normalize is not Normalize.NONE) is normalized
        ]

    @property
    def stale(self) -> bool:
        """Whether a term, a service or a device class that concerns this class has appeared since."""
        return any(check() for check in self.stale_checks)

    @property
    def needs_all_nodes(self) -> bool:
        """Whether one placement can change the answers for many nodes at once."""
        return bool(self.cluster_filters or self.cluster_scores)


class _Normalized(ClusterScorePlugin):
    """A score of nodes and their pods whose maximum moves with every placement: recomputed each time."""

    def __init__(self, plugin: ScorePlugin) -> None:
        self.name, self._plugin = plugin.name, plugin

    def normalized_scores(self, feasible: Bools) -> Ints:
        raw = self._plugin.score(slice(0, len(feasible)))
        return normalized(raw, feasible, reverse=self._plugin.normalize is Normalize.REVERSED)


class Profile:
    """The plugins of one profile over one table."""

    def __init__(self, handle: Handle, registry: Registry = IN_TREE_REGISTRY) -> None:
        self.gates, self.arguments = handle.gates, handle.arguments
        self.plugins = registry.make(handle)
        weights = self.arguments.weights
        self.weights: Mapping[str, int] = registry.default_weights if weights is None else weights
        self.profiler: PluginProfiler | None = None

    def registered_events(self) -> RegisteredEvents:
        """Return the events each plugin registers for, with their hints."""
        return {name: plugin.events_to_register() for name, plugin in self.plugins.items()}

    def _filters(self, name: str) -> bool:
        return name not in self.arguments.disabled_filters

    def _scores(self, name: str) -> bool:
        return name not in self.arguments.disabled_scores and self.weights.get(name, 0) > 0

    def for_class(self, pod: PodClass) -> ClassPlugins:
        """Return what every plugin has to say about *pod*."""
        said = {name: plugin.for_class(pod) for name, plugin in self.plugins.items()}
        if self.profiler is not None:
            for name, extensions in said.items():
                self.profiler.time(name, extensions)
        filtering = self._in_order({name: each for name, each in said.items() if self._filters(name)})
        scoring = {name: each for name, each in said.items() if self._scores(name)}
        return ClassPlugins(
            filters=[each.filter for each in filtering.values() if each.filter is not None],
            pre_filters=[each.pre_filter for each in filtering.values() if each.pre_filter is not None],
            node_names=[
                (name, each.node_names) for name, each in filtering.items() if each.node_names is not None
            ],
            post_filters=[each.post_filter for each in filtering.values() if each.post_filter is not None],
            pre_score=next(_pre_score_errors(scoring), ""),
            scores=[
                (each.score, self.weights[name]) for name, each in scoring.items() if each.score is not None
            ],
            cluster_scores=[
                (each.cluster_score, self.weights[name])
                for name, each in scoring.items()
                # what PreFilter finds, Score reads
                if each.cluster_score is not None and (each.pre_filter is None or name in filtering)
            ],
            reserves=[each.reserve for each in filtering.values() if each.reserve is not None],
            stale_checks=[each.stale for each in said.values() if each.stale is not None],
            fused=self.profiler is None,
        )

    def _in_order(self, said: dict[str, Extensions]) -> dict[str, Extensions]:
        order = self.arguments.filter_order
        if not order:
            return said
        return {name: said[name] for name in order if name in said}

    def loses_claim_state(self, diagnosis: Diagnosis) -> bool:
        """Whether Kubernetes would trip over missing state and say `not found` instead of trying preemption.

        DynamicResources' PostFilter reads what its PreFilter left; when an earlier PreFilter ends the cycle there is
        nothing. An accident, so it is reported only in the upstream reason style (core.md D-37).
        """
        return (
            self.arguments.upstream_reasons
            and bool(diagnosis.prefilter)
            and DYNAMIC_RESOURCES not in diagnosis.plugins
            and self.gates.enabled("DynamicResourceAllocation")
            and self._filters(DYNAMIC_RESOURCES)
        )


def _pre_score_errors(scoring: Mapping[str, Extensions]) -> Iterator[str]:
    for name, each in scoring.items():
        if each.pre_score:
            yield f'running PreScore plugin "{name}": {each.pre_score}'


def highest(raw: Ids | Ints, feasible: Bools) -> int:
    """Return the highest raw score among *feasible*, 0 when there is none; no raw score is negative."""
    open_raw = raw * feasible  # a maximum with `where` takes ten times as long
    return int(open_raw[open_raw.argmax()]) if len(raw) else 0


def normalized(raw: Ids | Ints, feasible: Bools, *, reverse: bool) -> Ints:
    """Return raw scores scaled by the highest among *feasible* (DefaultNormalizeScore)."""
    most = highest(raw, feasible)
    if most == 0:
        return np.full(len(raw), MAX_NODE_SCORE if reverse else 0, np.int64)
    scaled = MAX_NODE_SCORE * np.minimum(raw, most) // most
    return MAX_NODE_SCORE - scaled if reverse else scaled
