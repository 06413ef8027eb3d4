"""Reads KubeSchedulerConfiguration files.

Spec: core.md 3.4, 3.5, 3.7 (plugin arguments).
Supports profiles, enabled and disabled plugins, weights, and the arguments of the plugins weir has. An unusable
setting is one error naming its path; an unsupported setting is rejected, not ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from weir.objects.core import ViewError
from weir.objects.manifest import read_manifest
from weir.scheduler.plugin_arguments import ConfigError as ConfigError
from weir.scheduler.plugin_arguments import Fields, read_arguments
from weir.scheduler.plugins.registry import ALL, IN_TREE_REGISTRY, PluginSet, Registry
from weir.scheduler.profile_arguments import ProfileArguments

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
#: A weight beyond this could make the sum of all scores too large to count.
_MOST_WEIGHT: Final = 2**31 - 1
_DAY: Final = 86400
#: A leader has to renew this much more often than it is allowed to miss, for clocks and delays differ.
_JITTER: Final = 1.2


#: Most of a binding is waiting for the server, which takes 200 writes at once from all clients together.
BINDINGS: Final = 96
#: kube-scheduler's own: writes a second, and at once.
QPS: Final = 50.0
BURST: Final = 100


@dataclass(frozen=True)
class SchedulerConfig:
    """Everything that can be set for the scheduler."""

    profiles: tuple[ProfileArguments, ...] = (ProfileArguments(),)
    leader_elect: bool = True
    lease_namespace: str = "kube-system"
    lease_name: str = "kube-scheduler"
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0
    initial_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 10.0
    parallelism: int = BINDINGS  #: bindings under way at once
    registry: Registry = IN_TREE_REGISTRY  #: the plugins that profiles choose from
    qps: float = 0.0  #: writes a second; 0: no limit
    burst: int = BURST  #: and at once
    profiling: bool = False  #: time every call of every plugin
    kubeconfig: str = ""  #: the file that says where the cluster is; "": as the command line says


def read_config(
    text: str | bytes, file: str = "<config>", registry: Registry = IN_TREE_REGISTRY
) -> SchedulerConfig:
    """Return the configuration that *text* holds, with plugins of *registry*.

    >>> read_config("apiVersion: kubescheduler.config.k8s.io/v1\\nkind: KubeSchedulerConfiguration").leader_elect
    True
    """
    documents = read_manifest(text, file)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise ConfigError(f"{file}: one {KIND} is expected")
    document = documents[0].value
    try:
        return _Reader(file, registry).config(document)
    except ViewError as error:
        raise ConfigError(f"{file}: {error}") from None


class _Reader(Fields):
    def __init__(self, file: str, registry: Registry) -> None:
        super().__init__(file)
        self._registry = registry

    def config(self, document: dict[str, Any]) -> SchedulerConfig:
        if document.get("apiVersion") != API_VERSION or document.get("kind") != KIND:
            raise self.wrong("apiVersion, kind", f"write apiVersion: {API_VERSION} and kind: {KIND}")
        fields = self.mapping(
            document, "", "apiVersion", "kind", "profiles", "leaderElection", "clientConnection", "parallelism",
            "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "enableProfiling",
            "enableContentionProfiling", "healthzBindAddress", "metricsBindAddress", "delayCacheUntilActive",
        )  # fmt: skip
        share = None
        if fields.get("percentageOfNodesToScore") is not None:
            share = self.number(fields["percentageOfNodesToScore"], "percentageOfNodesToScore", 0, 100)
        initial = self.number(fields.get("podInitialBackoffSeconds", 1), "podInitialBackoffSeconds", 1, _DAY)
        longest = self.number(fields.get("podMaxBackoffSeconds", 10), "podMaxBackoffSeconds", 1, _DAY)
        if longest < initial:
            raise self.wrong("podMaxBackoffSeconds", "must not be below podInitialBackoffSeconds")
        config = SchedulerConfig(
            self._profiles(fields.get("profiles"), share),
            initial_backoff_seconds=float(initial),
            max_backoff_seconds=float(longest),
            parallelism=self.number(fields.get("parallelism", BINDINGS), "parallelism", 1, 10_000),
            registry=self._registry,
            **self._connection(fields.get("clientConnection")),
        )
        return self._election(config, fields.get("leaderElection"))

    def _connection(self, value: Any) -> dict[str, Any]:
        """Return where the cluster is and how many writes a second it gets; what is 0 is as upstream defaults it."""
        at = "clientConnection"
        inner = self.mapping(value, at, "kubeconfig", "acceptContentTypes", "contentType", "qps", "burst")
        named, qps = inner.get("kubeconfig") or "", inner.get("qps") or QPS
        if isinstance(qps, bool) or not isinstance(qps, int | float):
            raise self.wrong(f"{at}.qps", "a number is expected")
        burst = self.number(inner.get("burst") or BURST, f"{at}.burst", 1, 2**31 - 1)
        return {
            "kubeconfig": self.text(named, f"{at}.kubeconfig") if named else "",
            "qps": max(float(qps), 0.0),
            "burst": burst,
        }

    def _election(self, config: SchedulerConfig, value: Any) -> SchedulerConfig:
        at = "leaderElection"
        inner = self.mapping(
            value, at, "leaderElect", "leaseDuration", "renewDeadline", "retryPeriod", "resourceLock",
            "resourceName", "resourceNamespace",
        )  # fmt: skip
        self.one_of(inner.get("resourceLock") or "leases", f"{at}.resourceLock", "leases")
        found = replace(
            config,
            leader_elect=self.flag(inner.get("leaderElect"), f"{at}.leaderElect", config.leader_elect),
            lease_namespace=self.text(
                inner.get("resourceNamespace", config.lease_namespace), f"{at}.resourceNamespace"
            ),
            lease_name=self.text(inner.get("resourceName", config.lease_name), f"{at}.resourceName"),
            lease_seconds=self.duration(
                inner.get("leaseDuration"), f"{at}.leaseDuration", config.lease_seconds
            ),
            renew_seconds=self.duration(
                inner.get("renewDeadline"), f"{at}.renewDeadline", config.renew_seconds
            ),
            retry_seconds=self.duration(inner.get("retryPeriod"), f"{at}.retryPeriod", config.retry_seconds),
        )
        if found.lease_seconds <= found.renew_seconds:
            raise self.wrong(
                f"{at}.leaseDuration", f"must be longer than renewDeadline ({found.renew_seconds:g}s)"
            )
        if found.renew_seconds <= _JITTER * found.retry_seconds:
            raise self.wrong(
                f"{at}.renewDeadline",
                f"must be longer than {_JITTER} times retryPeriod ({found.retry_seconds:g}s)",
            )
        return found

    # ── profiles ──

    def _profiles(self, value: Any, share: int | None) -> tuple[ProfileArguments, ...]:
        written = self.list(value, "profiles") or [{}]
        profiles = tuple(self._profile(each, f"profiles[{i}]", share) for i, each in enumerate(written))
        names = [profile.name for profile in profiles]
        for name in names:
            if names.count(name) > 1:
                raise self.wrong("profiles", f"two profiles are called {name!r}; schedulerName must differ")
        return profiles

    def _profile(self, value: Any, at: str, share: int | None) -> ProfileArguments:
        fields = self.mapping(
            value, at, "schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore"
        )
        name = fields.get("schedulerName")
        profile = ProfileArguments(
            name="default-scheduler" if name is None else self.text(name, f"{at}.schedulerName")
        )
        own = fields.get("percentageOfNodesToScore", share)
        if own is not None:
            sample = self.number(own, f"{at}.percentageOfNodesToScore", 0, 100)
            profile = replace(profile, percentage_of_nodes_to_score=sample)
        profile = self._plugins(profile, fields.get("plugins"), f"{at}.plugins")
        seen: set[str] = set()
        for number, entry in enumerate(self.list(fields.get("pluginConfig"), f"{at}.pluginConfig")):
            place = f"{at}.pluginConfig[{number}]"
            inner = self.mapping(entry, place, "name", "args")
            plugin = self.text(inner.get("name"), f"{place}.name")
            if plugin in seen:
                raise self.wrong(f"{place}.name", f"{plugin} has arguments twice")
            seen.add(plugin)
            profile = self._arguments(profile, plugin, inner.get("args") or {}, place)
        return profile

    def _arguments(self, profile: ProfileArguments, plugin: str, args: Any, at: str) -> ProfileArguments:
        if plugin in self._registry.names and plugin not in IN_TREE_REGISTRY.names:
            own = {**profile.plugin_config, plugin: args}  # its factory checks them
            return replace(profile, plugin_config=own)
        return read_arguments(profile, plugin, args, at, self)

    def _plugins(self, profile: ProfileArguments, value: Any, at: str) -> ProfileArguments:
        sets = {
            point: self._plugin_set(choice, f"{at}.{point}", point)
            for point, choice in self.mapping(value, at, *self._registry.points).items()
        }
        chosen = self._registry.choose(sets)
        for point in ("queueSort", "bind"):
            if not chosen.at[point]:
                there = ", ".join(self._registry.points[point])
                raise self.wrong(f"{at}.{point}", f"a profile needs one; there is {there}")
        return replace(
            profile,
            disabled_filters=frozenset(self._registry.filters) - {*chosen.filters},
            disabled_scores=frozenset(self._registry.points["score"]) - chosen.scores,
            filter_order=chosen.filters if sets else (),
            weights=chosen.weights,
            preempts="DefaultPreemption" in chosen.at["postFilter"],
            frees_claims="DynamicResources" in chosen.at["postFilter"],
            honours_gates="SchedulingGates" in chosen.at["preEnqueue"],
        )

    def _plugin_set(self, value: Any, at: str, point: str) -> PluginSet:
        fields = self.mapping(value, at, "enabled", "disabled")
        disabled: set[str] = set()
        for number, entry in enumerate(self.list(fields.get("disabled"), f"{at}.disabled")):
            where = f"{at}.disabled[{number}]"
            name = self.text(self.mapping(entry, where, "name", "weight").get("name"), f"{where}.name")
            if name != ALL:
                self._known(name, where)
            disabled.add(name)
        enabled: dict[str, int] = {}
        for number, entry in enumerate(self.list(fields.get("enabled"), f"{at}.enabled")):
            where = f"{at}.enabled[{number}]"
            inner = self.mapping(entry, where, "name", "weight")
            name = self.text(inner.get("name"), f"{where}.name")
            self._known(name, where)
            if name not in self._registry.points[point]:
                raise self.wrong(where, f"{name} has nothing to say at {point}")
            if name in enabled:
                raise self.wrong(where, f"{name} is enabled twice")
            enabled[name] = self.number(inner.get("weight") or 0, f"{where}.weight", 0, _MOST_WEIGHT)
        return PluginSet(tuple(enabled.items()), frozenset(disabled))

    def _known(self, name: str, at: str) -> None:
        if name not in self._registry.names:
            raise self.wrong(at, f"unknown plugin {name!r}; there are {', '.join(self._registry.names)}")
