"""How is the scheduler set up? A file in the shape of KubeSchedulerConfiguration.

Spec: core.md 3.4, 3.5, 3.7 (plugin arguments). Profiles with their own name, plugins switched on and off, weights,
the arguments of the plugins weir has. A setting that cannot be used is one clear error naming its place; a setting
weir does not have is refused rather than ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from weir.objects.core import NodeAffinity, TopologySpreadConstraint, ViewError, read
from weir.objects.manifest import read_manifest
from weir.scheduler.plugin_sets import ALL, PLUGINS, POINTS, PluginSet, choose
from weir.scheduler.plugin_sets import FILTERS as FILTERS
from weir.scheduler.plugins.node_resources_fit import FitArguments
from weir.scheduler.profile import DEFAULT_WEIGHTS, ProfileArguments

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
#: A weight beyond this could make the sum of all scores too large to count.
_MOST_WEIGHT: Final = 2**31 - 1


class ConfigError(ValueError):
    """A configuration that cannot be used: the place, and what to write."""


@dataclass(frozen=True)
class SchedulerConfig:
    """Everything the scheduler can be told."""

    profiles: tuple[ProfileArguments, ...] = (ProfileArguments(),)
    leader_elect: bool = True
    lease_namespace: str = "kube-system"
    lease_name: str = "kube-scheduler"
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0
    initial_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 10.0
    parallelism: int = 64  #: bindings under way at once


def read_config(text: str | bytes, file: str = "<config>") -> SchedulerConfig:
    """Return the configuration that *text* holds.

    >>> read_config("apiVersion: kubescheduler.config.k8s.io/v1\\nkind: KubeSchedulerConfiguration").leader_elect
    True
    """
    documents = read_manifest(text, file)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise ConfigError(f"{file}: one {KIND} is expected")
    document = documents[0].value
    try:
        return _Reader(file).config(document)
    except ViewError as error:
        raise ConfigError(f"{file}: {error}") from None


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file

    def _wrong(self, at: str, what: str) -> ConfigError:
        return ConfigError(f"{self._file}: {at}: {what}")

    def _fields(self, value: Any, at: str, *known: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(at, "a mapping is expected")
        for name in value:
            if name not in known:
                raise self._wrong(f"{at}.{name}" if at else name, f"unknown; known are {', '.join(known)}")
        return value

    def _list(self, value: Any, at: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(at, "a list is expected")
        return value

    def _text(self, value: Any, at: str) -> str:
        if not isinstance(value, str) or not value:
            raise self._wrong(at, f"{value!r} is not a name")
        return value

    def _number(self, value: Any, at: str, low: float, high: float) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(at, f"{value!r} is not a whole number from {low:.0f} to {high:.0f}")
        return value

    def config(self, document: dict[str, Any]) -> SchedulerConfig:
        if document.get("apiVersion") != API_VERSION or document.get("kind") != KIND:
            raise self._wrong("apiVersion, kind", f"write apiVersion: {API_VERSION} and kind: {KIND}")
        fields = self._fields(
            document, "", "apiVersion", "kind", "profiles", "leaderElection", "clientConnection", "parallelism",
            "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "enableProfiling",
            "enableContentionProfiling", "healthzBindAddress", "metricsBindAddress", "delayCacheUntilActive",
        )  # fmt: skip
        defaults = SchedulerConfig()
        share = None
        if fields.get("percentageOfNodesToScore") is not None:
            share = self._number(fields["percentageOfNodesToScore"], "percentageOfNodesToScore", 0, 100)
        profiles = self._list(fields.get("profiles"), "profiles") or [{}]
        read_profiles = tuple(self._profile(p, f"profiles[{i}]", share) for i, p in enumerate(profiles))
        names = [profile.name for profile in read_profiles]
        for name in names:
            if names.count(name) > 1:
                raise self._wrong("profiles", f"two profiles are called {name!r}; schedulerName must differ")
        election = self._fields(
            fields.get("leaderElection"), "leaderElection", "leaderElect", "leaseDuration", "renewDeadline",
            "retryPeriod", "resourceLock", "resourceName", "resourceNamespace",
        )  # fmt: skip
        initial = fields.get("podInitialBackoffSeconds", 1)
        longest = fields.get("podMaxBackoffSeconds", 10)
        self._number(initial, "podInitialBackoffSeconds", 0, 86400)
        self._number(longest, "podMaxBackoffSeconds", 0, 86400)
        if longest < initial:
            raise self._wrong("podMaxBackoffSeconds", "must not be below podInitialBackoffSeconds")
        return SchedulerConfig(
            read_profiles,
            bool(election.get("leaderElect", True)),
            str(election.get("resourceNamespace", defaults.lease_namespace)),
            str(election.get("resourceName", defaults.lease_name)),
            self._duration(
                election.get("leaseDuration"), "leaderElection.leaseDuration", defaults.lease_seconds
            ),
            self._duration(
                election.get("renewDeadline"), "leaderElection.renewDeadline", defaults.renew_seconds
            ),
            self._duration(election.get("retryPeriod"), "leaderElection.retryPeriod", defaults.retry_seconds),
            float(initial),
            float(longest),
            self._number(fields.get("parallelism", 64), "parallelism", 1, 10_000),
        )

    def _duration(self, value: Any, at: str, default: float) -> float:
        if value is None:
            return default
        text = str(value)
        for suffix, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)):
            if text.endswith(suffix) and text.removesuffix(suffix).replace(".", "", 1).isdigit():
                return float(text.removesuffix(suffix)) * factor
        raise self._wrong(at, f"{value!r} is not a duration; write 15s")

    # ── profiles ──

    def _profile(self, value: Any, at: str, share: int | None) -> ProfileArguments:
        fields = self._fields(
            value, at, "schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore"
        )
        name = fields.get("schedulerName")
        profile = ProfileArguments(
            name="default-scheduler" if name is None else self._text(name, f"{at}.schedulerName")
        )
        own = fields.get("percentageOfNodesToScore", share)
        if own is not None:
            profile = replace(
                profile,
                percentage_of_nodes_to_score=self._number(own, f"{at}.percentageOfNodesToScore", 0, 100),
            )
        profile = self._plugins(profile, fields.get("plugins"), f"{at}.plugins")
        for number, entry in enumerate(self._list(fields.get("pluginConfig"), f"{at}.pluginConfig")):
            place = f"{at}.pluginConfig[{number}]"
            inner = self._fields(entry, place, "name", "args")
            profile = self._arguments(profile, str(inner.get("name")), inner.get("args") or {}, place)
        return profile

    def _plugins(self, profile: ProfileArguments, value: Any, at: str) -> ProfileArguments:
        sets = {
            point: self._plugin_set(choice, f"{at}.{point}", point)
            for point, choice in self._fields(value, at, *POINTS).items()
        }
        chosen = choose(sets)
        for point in ("queueSort", "bind"):
            if not chosen.at[point]:
                raise self._wrong(
                    f"{at}.{point}", f"a profile needs one; there is {', '.join(POINTS[point])}"
                )
        return replace(
            profile,
            disabled_filters=frozenset(FILTERS) - {*chosen.filters},
            disabled_scores=frozenset(DEFAULT_WEIGHTS) - chosen.scores,
            filter_order=chosen.filters if sets else (),
            weights=chosen.weights,
            preempts="DefaultPreemption" in chosen.at["postFilter"],
            frees_claims="DynamicResources" in chosen.at["postFilter"],
            honours_gates="SchedulingGates" in chosen.at["preEnqueue"],
        )

    def _plugin_set(self, value: Any, at: str, point: str) -> PluginSet:
        fields = self._fields(value, at, "enabled", "disabled")
        disabled: set[str] = set()
        for number, entry in enumerate(self._list(fields.get("disabled"), f"{at}.disabled")):
            where = f"{at}.disabled[{number}]"
            name = self._text(self._fields(entry, where, "name", "weight").get("name"), f"{where}.name")
            if name != ALL:
                self._known(name, where)
            disabled.add(name)
        enabled: dict[str, int] = {}
        for number, entry in enumerate(self._list(fields.get("enabled"), f"{at}.enabled")):
            where = f"{at}.enabled[{number}]"
            inner = self._fields(entry, where, "name", "weight")
            name = self._text(inner.get("name"), f"{where}.name")
            self._known(name, where)
            if name not in POINTS[point]:
                raise self._wrong(where, f"{name} has nothing to say at {point}")
            if name in enabled:
                raise self._wrong(where, f"{name} is enabled twice")
            enabled[name] = self._number(inner.get("weight") or 0, f"{where}.weight", 0, _MOST_WEIGHT)
        return PluginSet(tuple(enabled.items()), frozenset(disabled))

    def _known(self, name: str, at: str) -> None:
        if name not in PLUGINS:
            raise self._wrong(at, f"unknown plugin {name!r}; there are {', '.join(PLUGINS)}")

    # ── arguments of plugins ──

    def _arguments(self, profile: ProfileArguments, plugin: str, args: Any, at: str) -> ProfileArguments:
        place = f"{at}.args"
        match plugin:
            case "NodeResourcesFit":
                return replace(profile, fit=self._fit(args, place))
            case "NodeResourcesBalancedAllocation":
                inner = self._fields(args, place, "apiVersion", "kind", "resources")
                names = tuple(self._resources(inner.get("resources"), f"{place}.resources"))
                return replace(profile, balanced_resources=names or profile.balanced_resources)
            case "NodeAffinity":
                inner = self._fields(args, place, "apiVersion", "kind", "addedAffinity")
                return replace(profile, added_affinity=read(NodeAffinity, inner.get("addedAffinity") or {}))
            case "InterPodAffinity":
                inner = self._fields(
                    args,
                    place,
                    "apiVersion",
                    "kind",
                    "hardPodAffinityWeight",
                    "ignorePreferredTermsOfExistingPods",
                )
                weight = self._number(
                    inner.get("hardPodAffinityWeight", 1), f"{place}.hardPodAffinityWeight", 0, 100
                )
                ignore = bool(inner.get("ignorePreferredTermsOfExistingPods", False))
                return replace(
                    profile, hard_pod_affinity_weight=weight, ignore_preferred_terms_of_existing_pods=ignore
                )
            case "PodTopologySpread":
                inner = self._fields(
                    args, place, "apiVersion", "kind", "defaultConstraints", "defaultingType"
                )
                constraints = tuple(
                    read(TopologySpreadConstraint, c)
                    for c in self._list(inner.get("defaultConstraints"), f"{place}.defaultConstraints")
                )
                system = inner.get("defaultingType", "System") == "System"
                if system and constraints:
                    raise self._wrong(f"{place}.defaultConstraints", "needs defaultingType: List")
                if system:
                    return profile
                return replace(profile, spread_defaults=constraints, system_spread_defaults=False)
            case "VolumeBinding":
                inner = self._fields(args, place, "apiVersion", "kind", "bindTimeoutSeconds")
                seconds = self._number(
                    inner.get("bindTimeoutSeconds", 600), f"{place}.bindTimeoutSeconds", 0, 86400
                )
                return replace(profile, bind_timeout_seconds=float(seconds))
            case "DefaultPreemption":
                inner = self._fields(
                    args,
                    place,
                    "apiVersion",
                    "kind",
                    "minCandidateNodesPercentage",
                    "minCandidateNodesAbsolute",
                )
                share = inner.get("minCandidateNodesPercentage", profile.candidate_share)
                least = inner.get("minCandidateNodesAbsolute", profile.least_candidates)
                return replace(
                    profile,
                    candidate_share=self._number(share, f"{place}.minCandidateNodesPercentage", 0, 100),
                    least_candidates=self._number(least, f"{place}.minCandidateNodesAbsolute", 0, 2**31 - 1),
                )
            case "DynamicResources":
                inner = self._fields(args, place, "apiVersion", "kind", "filterTimeout", "bindingTimeout")
                filtering, binding = (
                    self._duration(inner.get(field), f"{place}.{field}", default)
                    for field, default in (
                        ("filterTimeout", profile.claim_filter_seconds),
                        ("bindingTimeout", profile.claim_binding_seconds),
                    )
                )
                return replace(profile, claim_filter_seconds=filtering, claim_binding_seconds=binding)
        raise self._wrong(at, f"no arguments are known for {plugin!r}")

    def _fit(self, args: Any, at: str) -> FitArguments:
        fields = self._fields(
            args, at, "apiVersion", "kind", "ignoredResources", "ignoredResourceGroups", "scoringStrategy"
        )
        strategy = self._fields(
            fields.get("scoringStrategy"),
            f"{at}.scoringStrategy",
            "type",
            "resources",
            "requestedToCapacityRatio",
        )
        kind = strategy.get("type", "LeastAllocated")
        if kind not in ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"):
            raise self._wrong(
                f"{at}.scoringStrategy.type",
                f"{kind!r}: LeastAllocated, MostAllocated or RequestedToCapacityRatio",
            )
        weights = self._resources(strategy.get("resources"), f"{at}.scoringStrategy.resources") or None
        place = f"{at}.scoringStrategy.requestedToCapacityRatio"
        ratio = self._fields(strategy.get("requestedToCapacityRatio"), place, "shape")
        shape = tuple(self._shape(ratio.get("shape"), f"{place}.shape"))
        return FitArguments(
            kind,
            weights,
            shape or FitArguments().shape,
            self._words(fields.get("ignoredResources"), f"{at}.ignoredResources"),
            self._words(fields.get("ignoredResourceGroups"), f"{at}.ignoredResourceGroups"),
        )

    def _resources(self, value: Any, at: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for number, entry in enumerate(self._list(value, at)):
            fields = self._fields(entry, f"{at}[{number}]", "name", "weight")
            weight = fields.get("weight", 1)
            name = self._text(fields.get("name"), f"{at}[{number}].name")
            found[name] = self._number(weight, f"{at}[{number}].weight", 1, 100)
        return found

    def _shape(self, value: Any, at: str) -> Iterator[tuple[int, int]]:
        before = -1
        for number, entry in enumerate(self._list(value, at)):
            where = f"{at}[{number}]"
            fields = self._fields(entry, where, "utilization", "score")
            used = self._number(fields.get("utilization"), f"{where}.utilization", 0, 100)
            if used <= before:
                raise self._wrong(f"{where}.utilization", f"{used} must be above {before}")
            before = used
            yield used, self._number(fields.get("score"), f"{where}.score", 0, 10)

    def _words(self, value: Any, at: str) -> frozenset[str]:
        return frozenset(self._text(each, f"{at}[{i}]") for i, each in enumerate(self._list(value, at)))
