"""Defaults of apps/v1 and batch/v1 that are not constants: rolling updates, and what a Job derives.

Spec: apiserver.md 5.2 (Deployment, ReplicaSet, DaemonSet).
"""

from __future__ import annotations

from typing import Any, Final

from weir.objects.defaults.core import fill

#: A field of the first DaemonSets that lives on as an annotation; the strategy counts it up.
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
MOST_RETRIES: Final = 2**31 - 1


def deployment(deployment: dict[str, Any]) -> None:
    _rolling_update(deployment.setdefault("spec", {}).setdefault("strategy", {}), "25%", "25%")


def daemon_set(daemon_set: dict[str, Any]) -> None:
    _rolling_update(daemon_set.setdefault("spec", {}).setdefault("updateStrategy", {}), 1, 0)
    annotations = daemon_set.setdefault("metadata", {}).setdefault("annotations", {})
    annotations.setdefault(TEMPLATE_GENERATION, "0")


def _rolling_update(strategy: dict[str, Any], unavailable: int | str, surge: int | str) -> None:
    """Set how many pods may be missing or extra; a strategy that is not rolling gets zeros in what it has."""
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(strategy, "rollingUpdate", {})
    else:
        unavailable = surge = 0
    if (rolling := strategy.get("rollingUpdate")) is not None:
        fill(rolling, "maxUnavailable", unavailable)
        fill(rolling, "maxSurge", surge)


def stateful_set(stateful_set: dict[str, Any]) -> None:
    spec = stateful_set.setdefault("spec", {})
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        fill(strategy, "rollingUpdate", {})
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        fill(rolling, "partition", 0)
        if strategy["type"] == "RollingUpdate":
            fill(rolling, "maxUnavailable", 1)
    for template in spec.get("volumeClaimTemplates") or ():
        template["apiVersion"], template["kind"] = "v1", "PersistentVolumeClaim"


def job(job: dict[str, Any]) -> None:
    """A job without either number runs one pod once; a job with a work queue has no completions."""
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, "backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else MOST_RETRIES)
    replacement = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    fill(spec, "podReplacementPolicy", replacement)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    metadata = job.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        # The same map: labels the server generates for the pods show on the job too.
        metadata["labels"] = labels


RULES: Final = {
    "apps.v1.DaemonSet": daemon_set,
    "apps.v1.Deployment": deployment,
    "apps.v1.StatefulSet": stateful_set,
    "batch.v1.Job": job,
}
