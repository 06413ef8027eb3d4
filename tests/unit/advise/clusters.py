"""Small clusters to ask for advice about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.advise.question import ZONE, Cluster, Question
from weir.explain.subject import Subject
from weir.gates import ALL_FEATURES
from weir.world import World


def node(name: str, zone: str = "", effect: str = "NoSchedule", **values: str) -> dict[str, Any]:
    taints = [{"key": key, "value": value, "effect": effect} for key, value in values.items()]
    labels = {ZONE: zone} if zone else {}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}


def entry(key: str, operator: str, value: str = "", **more: Any) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"value": value} if value else {}), **more}


#: Keeps the pods of a workload on different nodes.
APART: dict[str, Any] = {
    "containers": [{"name": "c", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]
}


def workload(
    *tolerations: Mapping[str, Any], replicas: int = 1, name: str = "web", **spec: Any
) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"tolerations": list(tolerations), "containers": [{"name": "c", "image": "web"}], **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def ask(document: dict[str, Any], *cluster: Any) -> Question:
    objects: Sequence[Any] = cluster
    return Question(Subject.of(document), Cluster(World.of(objects), ALL_FEATURES))
