"""Defaults of apps/v1: replicas and update strategies.

Spec: apiserver.md 5.2 (Deployment, ReplicaSet, DaemonSet).
"""

from __future__ import annotations

from typing import Any, Final

from weir.objects.defaults.core import fill

#: A field of the first DaemonSets that lives on as an annotation; the strategy counts it up.
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def deployment(deployment: dict[str, Any]) -> None:
    spec = deployment.setdefault("spec", {})
    fill(spec, "replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(strategy, "rollingUpdate", {})
        fill(strategy["rollingUpdate"], "maxUnavailable", "25%")
        fill(strategy["rollingUpdate"], "maxSurge", "25%")
    elif strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], "maxUnavailable", 0)
        fill(strategy["rollingUpdate"], "maxSurge", 0)
    fill(spec, "revisionHistoryLimit", 10)
    fill(spec, "progressDeadlineSeconds", 600)


def daemon_set(daemon_set: dict[str, Any]) -> None:
    spec = daemon_set.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(strategy, "rollingUpdate", {})
        fill(strategy["rollingUpdate"], "maxUnavailable", 1)
        fill(strategy["rollingUpdate"], "maxSurge", 0)
    elif strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], "maxUnavailable", 0)
        fill(strategy["rollingUpdate"], "maxSurge", 0)
    fill(spec, "revisionHistoryLimit", 10)
    annotations = daemon_set.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(TEMPLATE_GENERATION, "0")


def stateful_set(stateful_set: dict[str, Any]) -> None:
    spec = stateful_set.setdefault("spec", {})
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        fill(strategy, "rollingUpdate", {})
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        fill(rolling, "partition", 0)
        if strategy["type"] == "RollingUpdate":
            fill(rolling, "maxUnavailable", 1)
    fill(spec, "persistentVolumeClaimRetentionPolicy", {})
    for key in ("whenDeleted", "whenScaled"):
        if not spec["persistentVolumeClaimRetentionPolicy"].get(key):
            spec["persistentVolumeClaimRetentionPolicy"][key] = "Retain"
    fill(spec, "replicas", 1)
    fill(spec, "revisionHistoryLimit", 10)
    for template in spec.get("volumeClaimTemplates") or ():
        template["apiVersion"], template["kind"] = "v1", "PersistentVolumeClaim"


def replica_set(replica_set: dict[str, Any]) -> None:
    fill(replica_set.setdefault("spec", {}), "replicas", 1)


RULES: Final = {
    "apps.v1.Deployment": deployment,
    "apps.v1.DaemonSet": daemon_set,
    "apps.v1.StatefulSet": stateful_set,
    "apps.v1.ReplicaSet": replica_set,
}
