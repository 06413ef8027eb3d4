"""The plugin registry: order, extension points, default weights.

Spec: core.md 3.4 "Default plugins, order and weights".
This is the only list of plugins. Others are added with `Registry.register`, like `WithPlugin` of kube-scheduler. In a
configuration `multiPoint` enables or disables a plugin at all its points; a specific point overrides that. A plugin
enabled at a specific point goes before the others there, or after them when `multiPoint` does not have it. Enabling a
plugin again without a weight gives it weight 1, not its default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from weir.scheduler.framework import Handle, Plugin
from weir.scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from weir.scheduler.plugins.dynamic_resources import DynamicResources, Limits
from weir.scheduler.plugins.image_locality import ImageLocality
from weir.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from weir.scheduler.plugins.node_affinity import NodeAffinity
from weir.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from weir.scheduler.plugins.node_name import NodeName
from weir.scheduler.plugins.node_ports import NodePorts
from weir.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from weir.scheduler.plugins.node_resources_fit import NodeResourcesFit
from weir.scheduler.plugins.node_unschedulable import NodeUnschedulable
from weir.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from weir.scheduler.plugins.pod_topology_spread import PodTopologySpread
from weir.scheduler.plugins.scheduling_gates import SchedulingGates
from weir.scheduler.plugins.taint_toleration import TaintToleration
from weir.scheduler.plugins.volume_binding import EMPTIEST_FIRST, VolumeBinding
from weir.scheduler.plugins.volume_restrictions import VolumeRestrictions
from weir.scheduler.plugins.volume_zone import VolumeZone
from weir.scheduler.volumes import Storage

ALL: Final = "*"
MULTI_POINT: Final = "multiPoint"
#: The extension points in the order Kubernetes lists them.
EXTENSION_POINTS: Final = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit", "preBind",
    "bind", "postBind",
)  # fmt: skip

#: Makes a plugin of one profile; None where the profile has nothing for it to look at.
PluginFactory = Callable[[Handle], Plugin | None]


@dataclass(frozen=True)
class Registration:
    """One plugin: its name, the points a configuration may name it at, its default weight, how it is made."""

    name: str
    points: tuple[str, ...]
    factory: PluginFactory | None = None  #: None: a step of the queue or of schedule_one, not an object
    weight: int = 0  #: of its score


# ── factories that need more than the handle's fields ────────────────────────────────────────────


def _node_resources_fit(handle: Handle) -> Plugin:
    asked = DYNAMIC_RESOURCES not in handle.arguments.disabled_filters
    looks_at_devices = asked and handle.gates.enabled("DynamicResourceAllocation")
    claims = handle.claims if looks_at_devices else None
    return NodeResourcesFit(handle.table, handle.arguments.fit, claims)


def _over_storage(make: Callable[[Handle, Storage], Plugin]) -> PluginFactory:
    """Return the factory of a plugin that looks at volumes: there is none where the profile has no storage."""
    return lambda handle: make(handle, handle.storage) if handle.storage is not None else None


def _volume_binding(handle: Handle, storage: Storage) -> Plugin:
    shape = handle.arguments.volume_shape or EMPTIEST_FIRST
    return VolumeBinding(handle.table, storage, handle.gates, shape)


def _pod_topology_spread(handle: Handle) -> Plugin:
    return PodTopologySpread(
        handle.pod_counts,
        handle.gates,
        handle.judged_taints,
        handle.arguments.spread_defaults,
        system_defaults=handle.arguments.system_spread_defaults,
        default_selector=handle.default_selector,
    )


def _inter_pod_affinity(handle: Handle) -> Plugin:
    return InterPodAffinity(
        handle.pod_counts,
        handle.arguments.hard_pod_affinity_weight,
        ignore_preferred_of_existing=handle.arguments.ignore_preferred_terms_of_existing_pods,
    )


def _dynamic_resources(handle: Handle) -> Plugin | None:
    if handle.claims is None or not handle.gates.enabled("DynamicResourceAllocation"):
        return None
    limits = Limits(handle.arguments.claim_filter_seconds, handle.arguments.claim_binding_seconds)
    return DynamicResources(handle.table, handle.claims, handle.gates, handle.share_id, limits)


#: In execution order; of the filters, the first that rejects a node gives the reason.
IN_TREE: Final = (
    Registration("SchedulingGates", ("preEnqueue",), lambda h: SchedulingGates()),
    Registration("PrioritySort", ("queueSort",)),
    Registration("NodeName", ("preFilter", "filter"), lambda h: NodeName(h.table)),
    Registration("NodeUnschedulable", ("filter",), lambda h: NodeUnschedulable(h.table, h.gates, h.evaluate)),
    Registration(
        "TaintToleration", ("filter", "preScore", "score"),
        lambda h: TaintToleration(h.table, h.judged_taints, upstream_reason=h.arguments.upstream_reasons),
        weight=3,
    ),
    Registration(
        "NodeAffinity", ("preFilter", "filter", "preScore", "score"),
        lambda h: NodeAffinity(h.table, h.gates, h.arguments.added_affinity), weight=2,
    ),
    Registration("NodePorts", ("preFilter", "filter"), lambda h: NodePorts(h.table)),
    Registration("NodeResourcesFit", ("preFilter", "filter", "preScore", "score"), _node_resources_fit, weight=1),
    Registration(
        "VolumeRestrictions", ("preFilter", "filter"),
        _over_storage(lambda h, storage: VolumeRestrictions(h.table, storage)),
    ),
    Registration(
        "NodeVolumeLimits", ("preFilter", "filter"),
        _over_storage(lambda h, storage: NodeVolumeLimits(h.table, storage, h.gates)),
    ),
    Registration(
        "VolumeBinding", ("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
        _over_storage(_volume_binding), weight=1,
    ),
    Registration(
        "VolumeZone", ("preFilter", "filter"), _over_storage(lambda h, storage: VolumeZone(h.table, storage))
    ),
    Registration("PodTopologySpread", ("preFilter", "filter", "preScore", "score"), _pod_topology_spread, weight=2),
    Registration("InterPodAffinity", ("preFilter", "filter", "preScore", "score"), _inter_pod_affinity, weight=2),
    Registration(
        DYNAMIC_RESOURCES,
        ("preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "preBind"),
        _dynamic_resources, weight=2,
    ),
    Registration("DefaultPreemption", ("preEnqueue", "postFilter")),
    Registration(
        "NodeResourcesBalancedAllocation", ("preScore", "score"),
        lambda h: NodeResourcesBalancedAllocation(h.table, h.arguments.balanced_resources), weight=1,
    ),
    Registration("ImageLocality", ("score",), lambda h: ImageLocality(h.table), weight=1),
    Registration("DefaultBinder", ("bind",)),
    Registration("NodeDeclaredFeatures", ("preFilter", "filter"), lambda h: NodeDeclaredFeatures(h.table)),
)  # fmt: skip


@dataclass(frozen=True)
class PluginSet:
    """What a profile says of one point."""

    enabled: Sequence[tuple[str, int]] = ()  #: names and weights; 0: not said
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True)
class EnabledPlugins:
    """The plugins of a profile."""

    at: Mapping[str, tuple[str, ...]]  #: by point, in execution order
    weights: Mapping[str, int]
    filters: tuple[str, ...]  #: in order; one whose PreFilter is disabled is left out
    scores: frozenset[str]  #: the same with PreScore


@dataclass(frozen=True)
class Registry:
    """All plugins that profiles can choose from."""

    registrations: tuple[Registration, ...] = IN_TREE
    #: each extension point and the plugins that implement it, in execution order
    points: Mapping[str, tuple[str, ...]] = field(init=False)
    default_weights: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        points = {MULTI_POINT: tuple(each.name for each in self.registrations)}
        for point in EXTENSION_POINTS:
            points[point] = tuple(each.name for each in self.registrations if point in each.points)
        weights = {each.name: each.weight for each in self.registrations if "score" in each.points}
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "default_weights", weights)

    @property
    def names(self) -> tuple[str, ...]:
        return self.points[MULTI_POINT]

    @property
    def filters(self) -> tuple[str, ...]:
        return self.points["filter"]

    def register(self, plugin: Registration) -> Registry:
        """Return the registry with *plugin* added last; one of the same name is replaced in its place.

        >>> IN_TREE_REGISTRY.register(Registration("Rack", ("filter",))).filters[-1]
        'Rack'
        """
        if plugin.name in self.names:
            return Registry(tuple(plugin if old.name == plugin.name else old for old in self.registrations))
        return Registry((*self.registrations, plugin))

    def make(self, handle: Handle) -> dict[str, Plugin]:
        """Return the plugins of one profile by name, in order."""
        made = {each.name: each.factory(handle) for each in self.registrations if each.factory is not None}
        return {name: plugin for name, plugin in made.items() if plugin is not None}

    def choose(self, sets: Mapping[str, PluginSet]) -> EnabledPlugins:
        """Return the enabled plugins per extension point, for a profile with *sets* by point.

        >>> sets = {"filter": PluginSet(enabled=[("NodePorts", 0)], disabled=frozenset({"NodeName"}))}
        >>> chosen = IN_TREE_REGISTRY.choose(sets)
        >>> chosen.filters[:2], chosen.weights["TaintToleration"]
        (('NodePorts', 'NodeUnschedulable'), 3)
        """
        everywhere = self._everywhere(sets.get(MULTI_POINT, PluginSet()))
        at = {
            point: tuple(_at_point(self.points[point], everywhere, sets.get(point, PluginSet())))
            for point in EXTENSION_POINTS
        }
        weights = {name: everywhere.get(name) or 1 for name in self.points["score"]}
        weights |= {name: weight or 1 for name, weight in sets.get("score", PluginSet()).enabled}
        return EnabledPlugins(at, weights, *self._complete(at))

    def _complete(self, at: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, ...], frozenset[str]]:
        """Return the filters and scores whose PreFilter or PreScore, if they have one, is on as well."""
        filters, scores = (
            tuple(name for name in at[point] if name not in self.points[before] or name in at[before])
            for before, point in (("preFilter", "filter"), ("preScore", "score"))
        )
        return filters, frozenset(scores)

    def _everywhere(self, said: PluginSet) -> dict[str, int]:
        """Return the plugins of multiPoint and their weights, in order: those named anew keep their place."""
        named = dict(said.enabled)
        gone = set(self.names) if ALL in said.disabled else said.disabled
        kept = {name: self.default_weights.get(name, 0) for name in self.names if name not in gone}
        return kept | named


def _at_point(known: tuple[str, ...], everywhere: Iterable[str], said: PluginSet) -> Iterable[str]:
    own = [name for name, _ in said.enabled]
    if ALL in said.disabled:
        return own
    general = [name for name in everywhere if name in known and name not in said.disabled]
    return [
        *(name for name in own if name in general),
        *(name for name in general if name not in own),
        *(name for name in own if name not in general),
    ]


IN_TREE_REGISTRY: Final = Registry()
FILTERS: Final = IN_TREE_REGISTRY.filters
