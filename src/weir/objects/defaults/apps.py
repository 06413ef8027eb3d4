"""Defaults of apps/v1: how many replicas, and how they are replaced.

Spec: apiserver.md 5.2 (Deployment, ReplicaSet, DaemonSet).
"""

from __future__ import annotations

from typing import Any, Final

#: A field of the first DaemonSets that lives on as an annotation; the strategy counts it up.
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _set(into: dict[str, Any], key: str, value: Any) -> None:
    if into.get(key) is None:
        into[key] = value


def deployment(deployment: dict[str, Any]) -> None:
    spec = deployment.setdefault("spec", {})
    _set(spec, "replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(strategy, "rollingUpdate", {})
        _set(strategy["rollingUpdate"], "maxUnavailable", "25%")
        _set(strategy["rollingUpdate"], "maxSurge", "25%")
    elif strategy.get("rollingUpdate") is not None:
        _set(strategy["rollingUpdate"], "maxUnavailable", 0)
        _set(strategy["rollingUpdate"], "maxSurge", 0)
    _set(spec, "revisionHistoryLimit", 10)
    _set(spec, "progressDeadlineSeconds", 600)


def daemon_set(daemon_set: dict[str, Any]) -> None:
    spec = daemon_set.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(strategy, "rollingUpdate", {})
        _set(strategy["rollingUpdate"], "maxUnavailable", 1)
        _set(strategy["rollingUpdate"], "maxSurge", 0)
    elif strategy.get("rollingUpdate") is not None:
        _set(strategy["rollingUpdate"], "maxUnavailable", 0)
        _set(strategy["rollingUpdate"], "maxSurge", 0)
    _set(spec, "revisionHistoryLimit", 10)
    annotations = daemon_set.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(TEMPLATE_GENERATION, "0")


def stateful_set(stateful_set: dict[str, Any]) -> None:
    spec = stateful_set.setdefault("spec", {})
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        _set(strategy, "rollingUpdate", {})
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and rolling is not None:
        _set(rolling, "partition", 0)
        _set(rolling, "maxUnavailable", 1)
    _set(spec, "persistentVolumeClaimRetentionPolicy", {})
    for key in ("whenDeleted", "whenScaled"):
        if not spec["persistentVolumeClaimRetentionPolicy"].get(key):
            spec["persistentVolumeClaimRetentionPolicy"][key] = "Retain"
    _set(spec, "replicas", 1)
    _set(spec, "revisionHistoryLimit", 10)
    for template in spec.get("volumeClaimTemplates") or ():
        template["apiVersion"], template["kind"] = "v1", "PersistentVolumeClaim"


def replica_set(replica_set: dict[str, Any]) -> None:
    _set(replica_set.setdefault("spec", {}), "replicas", 1)


RULES: Final = {
    "apps.v1.Deployment": deployment,
    "apps.v1.DaemonSet": daemon_set,
    "apps.v1.StatefulSet": stateful_set,
    "apps.v1.ReplicaSet": replica_set,
}
