"""Whatever a status leaves out, no controller fails at it: anybody may write one, and most fields are optional."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import pytest

from weir import Cluster
from weir.clock import VirtualClock
from weir.whatif.completion import complete

CONTAINERS = {"containers": [{"name": "main", "image": "main", "resources": {"requests": {"cpu": "100m"}}}]}
KINDS = (
    *(
        "Namespace",
        "Node",
        "Pod",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "ControllerRevision",
    ),
    *("Job", "CronJob", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Service", "EndpointSlice"),
    *("ResourceQuota", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"),
    *(
        "DeviceTaintRule",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
        "ServiceAccount",
        "Lease",
    ),
)


def named(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def template(app: str = "", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": app}}, "spec": {**CONTAINERS, **spec}}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    return named("apps/v1", kind, name, spec={"selector": selector, "template": template(name), **spec})


def job(name: str, **spec: Any) -> dict[str, Any]:
    return named("batch/v1", "Job", name, spec={"template": template(restartPolicy="Never"), **spec})


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
OBJECTS = (
    workload("Deployment", "web", replicas=2),
    workload("Deployment", "paused", replicas=1, paused=True),
    workload(
        *("StatefulSet", "db"),
        serviceName="db",
        replicas=2,
        volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": CLAIM}],
    ),
    workload("DaemonSet", "agent"),
    job("plain", ttlSecondsAfterFinished=100, activeDeadlineSeconds=600),
    job("indexed", completionMode="Indexed", completions=3, parallelism=2, backoffLimitPerIndex=1),
    job("suspended", suspend=True),
    named(
        *("batch/v1", "CronJob", "often"),
        spec={
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
        },
    ),
    named(
        *("policy/v1", "PodDisruptionBudget", "web"),
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    ),
    named(
        *("autoscaling/v2", "HorizontalPodAutoscaler", "web"),
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 4,
        },
    ),
    named("v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
    named("v1", "ResourceQuota", "pods", spec={"hard": {"pods": "100"}}),
    named(
        *("resource.k8s.io/v1", "ResourceClaimTemplate", "gpu"),
        spec={
            "spec": {
                "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
            }
        },
    ),
    named(
        *("v1", "Pod", "with-gpu"),
        spec={**CONTAINERS, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
    ),
    named(
        *("resource.k8s.io/v1beta2", "DeviceTaintRule", "nobody"),
        spec={
            "deviceSelector": {"driver": "nobody.example.com"},
            "taint": {"key": "k", "effect": "NoExecute"},
        },
    ),
    named("v1", "Namespace", "team"),
)


@cache
def lived() -> tuple[list[dict[str, Any]], Any]:
    """Return the objects of a cluster that has lived a while, and its time."""
    with Cluster() as cluster:
        cluster.add_nodes(2, name="gpu", devices=2)
        cluster.add_nodes(2)
        cluster.apply(*OBJECTS)
        cluster.advance(70)
        found = [
            {"apiVersion": cluster._kind(kind).api_version, "kind": kind, **document}
            for kind in KINDS
            for document in cluster.list(kind)
        ]
        return found, cluster.now


def thinned(value: Any, rng: random.Random, share: float) -> Any:
    """Return *value* without some of what its objects hold, at any depth."""
    if isinstance(value, dict):
        return {name: thinned(each, rng, share) for name, each in value.items() if rng.random() > share}
    return [thinned(each, rng, share) for each in value] if isinstance(value, list) else value


def conditions_alone(document: dict[str, Any], rng: random.Random) -> None:
    """Leave of each condition its type and status: what people write by hand."""
    for condition in document["status"].get("conditions") or ():
        for name in set(condition) - {"type", "status"}:
            if rng.random() < 0.7:
                del condition[name]


@pytest.mark.parametrize("seed", range(12))
def test_no_controller_fails_at_what_a_status_leaves_out(seed):
    rng = random.Random(seed)
    documents, now = copy.deepcopy(lived())
    for document in documents:
        if document.get("status"):
            if seed % 2:
                document["status"] = thinned(document["status"], rng, 0.25)
            else:
                conditions_alone(document, rng)
    with Cluster(clock=VirtualClock(now), holding=complete(documents, now).documents, seed=seed) as cluster:
        cluster.advance(20)
        cluster.taint("node-0", "k=v:NoExecute")
        cluster.delete("Namespace", "team", namespace="")
        cluster.advance(60)
        assert list(cluster.plane.failures()) == []
