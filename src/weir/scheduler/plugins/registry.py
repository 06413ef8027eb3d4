"""Which plugins are asked at which point, in which order, and how much does each score weigh?

Spec: core.md 3.4 "Default plugins, order and weights". `multiPoint` switches a plugin on or off wherever it has
something to say; a point of its own overrides that. A plugin named at a point of its own goes before the others there,
or after them when `multiPoint` does not have it.
What surprises: naming a plugin anew without a weight gives it the weight 1, not its default.
Not here: reading the file (weir.scheduler.config), the arguments of plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from weir.scheduler.profile import DEFAULT_WEIGHTS

ALL: Final = "*"
#: In the order in which they are asked; the first that refuses a node names the reason.
FILTERS: Final = (
    "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
    "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures",
)  # fmt: skip
PLUGINS: Final = (
    "SchedulingGates", "PrioritySort", *FILTERS[:-1], "DefaultPreemption", "NodeResourcesBalancedAllocation",
    "ImageLocality", "DefaultBinder", "NodeDeclaredFeatures",
)  # fmt: skip
_PREFILTERS: Final = tuple(name for name in FILTERS if name not in ("NodeUnschedulable", "TaintToleration"))
_SCORES: Final = tuple(name for name in PLUGINS if name in DEFAULT_WEIGHTS)
_PROMISES: Final = ("VolumeBinding", "DynamicResources")
#: The points in the order Kubernetes lists them, and the plugins that have something to say there.
POINTS: Final[Mapping[str, tuple[str, ...]]] = {
    "multiPoint": PLUGINS,
    "preEnqueue": ("SchedulingGates", "DynamicResources", "DefaultPreemption"),
    "queueSort": ("PrioritySort",),
    "preFilter": _PREFILTERS,
    "filter": FILTERS,
    "postFilter": ("DynamicResources", "DefaultPreemption"),
    "preScore": tuple(name for name in _SCORES if name != "ImageLocality"),
    "score": _SCORES,
    "reserve": _PROMISES,
    "permit": (),
    "preBind": _PROMISES,
    "bind": ("DefaultBinder",),
    "postBind": (),
}


@dataclass(frozen=True)
class PluginSet:
    """What a profile says of one point."""

    enabled: Sequence[tuple[str, int]] = ()  #: names and weights; 0: not said
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Chosen:
    """The plugins of a profile."""

    at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: by point, in the order they are asked
    weights: Mapping[str, int] = field(default_factory=dict)

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters, in order; one whose PreFilter is off has nothing to go by and is left out."""
        return tuple(n for n in self.at["filter"] if n not in _PREFILTERS or n in self.at["preFilter"])

    @property
    def scores(self) -> frozenset[str]:
        prepared = POINTS["preScore"]
        return frozenset(n for n in self.at["score"] if n not in prepared or n in self.at["preScore"])


def choose(sets: Mapping[str, PluginSet]) -> Chosen:
    """Return who is asked where, when a profile says *sets* by point.

    >>> chosen = choose({"filter": PluginSet(enabled=[("NodePorts", 0)], disabled=frozenset({"NodeName"}))})
    >>> chosen.filters[:2], chosen.weights["TaintToleration"]
    (('NodePorts', 'NodeUnschedulable'), 3)
    """
    everywhere = _everywhere(sets.get("multiPoint", PluginSet()))
    at = {
        point: tuple(_at_point(known, everywhere, sets.get(point, PluginSet())))
        for point, known in POINTS.items()
        if point != "multiPoint"
    }
    weights = {name: everywhere.get(name) or 1 for name in _SCORES}
    weights |= {name: weight or 1 for name, weight in sets.get("score", PluginSet()).enabled}
    return Chosen(at, weights)


def _everywhere(said: PluginSet) -> dict[str, int]:
    """Return the plugins of multiPoint and their weights, in order: those named anew keep their place."""
    named = dict(said.enabled)
    gone = set(PLUGINS) if ALL in said.disabled else said.disabled
    kept = {name: DEFAULT_WEIGHTS.get(name, 0) for name in PLUGINS if name not in gone}
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
