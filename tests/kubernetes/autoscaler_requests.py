"""Requests about HorizontalPodAutoscalers, asked of a real API server and of weir: both versions, every rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import APPLY, MERGE, TABLE, Asked, Document, document

V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def autoscaler(name: str, version: str = "v2", **spec: Any) -> Document:
    whole = {"scaleTargetRef": TARGET, "maxReplicas": 5, **spec}
    return document("HorizontalPodAutoscaler", name, f"autoscaling/{version}", spec=whole)


def target(**values: Any) -> Document:
    kind = (
        "Utilization" if "averageUtilization" in values else "Value" if "value" in values else "AverageValue"
    )
    return {"type": kind, **values}


def resource(name: str = "cpu", **values: Any) -> Document:
    return {"type": "Resource", "resource": {"name": name, "target": target(**values)}}


PODS_METRIC = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}},
        "target": target(averageValue="1500m"),
    },
}
OBJECT_METRIC = {
    "type": "Object",
    "object": {
        "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"},
        "metric": {"name": "hits"},
        "target": target(value="10k"),
    },
}
EXTERNAL_METRIC = {
    "type": "External",
    "external": {"metric": {"name": "depth"}, "target": target(averageValue="30")},
}
CONTAINER_METRIC = {
    "type": "ContainerResource",
    "containerResource": {"name": "memory", "container": "app", "target": target(averageUtilization=60)},
}
BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 30,
        "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
    },
    "scaleDown": {"selectPolicy": "Min", "tolerance": "50m"},
}
STATUS = {
    "currentReplicas": 2,
    "desiredReplicas": 3,
    "observedGeneration": 1,
    "currentMetrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": 91, "averageValue": "910m"}},
        },
        {"type": "Pods", "pods": {"metric": {"name": "queue"}, "current": {"averageValue": "3"}}},
    ],
    "conditions": [
        {
            "type": "AbleToScale",
            "status": "True",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "ReadyForNewScale",
            "message": "recommended size matches current size",
        },
        {"type": "ScalingLimited", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"},
    ],
}


def stored() -> Iterator[Asked]:
    """Autoscalers written in one version and read in both."""
    q = Questions("autoscalers")
    everything = [
        resource(averageUtilization=70),
        PODS_METRIC,
        OBJECT_METRIC,
        EXTERNAL_METRIC,
        CONTAINER_METRIC,
        resource("memory", averageValue="200Mi"),
    ]
    q.ask("v1 plain", "POST", V1, autoscaler("plain", "v1", targetCPUUtilizationPercentage=50))
    q.ask("v1 default", "POST", V1, autoscaler("default", "v1"))
    q.ask("v2 default", "POST", V2, autoscaler("two", minReplicas=2))
    q.ask("v2 everything", "POST", V2, autoscaler("all", metrics=everything, behavior=BEHAVIOR))
    q.ask("v2 empty behavior", "POST", V2, autoscaler("empty", behavior={}))
    q.ask("v2 to zero", "POST", V2, autoscaler("zero", minReplicas=0, metrics=[OBJECT_METRIC]))
    for name in ("plain", "default", "two", "all", "empty", "zero"):
        q.ask(f"{name} in v1", "GET", f"{V1}/{name}")
        q.ask(f"{name} in v2", "GET", f"{V2}/{name}")
    q.ask("status", "PATCH", f"{V2}/all/status", {"status": STATUS}, MERGE)
    q.ask("status in v1", "GET", f"{V1}/all")
    q.ask("status of v1", "GET", f"{V1}/all/status")
    q.ask("back through v1", "PATCH", f"{V1}/all", {"spec": {"maxReplicas": 9}}, MERGE)
    q.ask("after v1 in v2", "GET", f"{V2}/all")
    q.ask("not through spec", "PATCH", f"{V2}/all", {"status": {"desiredReplicas": 99}}, MERGE)
    q.ask(
        "negative status",
        "PATCH",
        f"{V2}/all/status",
        {"status": {"desiredReplicas": -1, "currentReplicas": -2}},
        MERGE,
    )
    q.ask("applied", "PATCH", f"{V2}/applied?fieldManager=me", autoscaler("applied", minReplicas=3), APPLY)
    q.ask(
        "applied in v1",
        "PATCH",
        f"{V1}/applied?fieldManager=other&force=true",
        autoscaler("applied", "v1", maxReplicas=7),
        APPLY,
    )
    q.ask("list", "GET", V1)
    yield from (*q.asked, *tables())


def tables() -> Iterator[Asked]:
    q = Questions("autoscaler tables")
    for path in (V2, V1):
        q.ask(f"table of {path}", "GET", path, accept=TABLE)
    q.ask("groups", "GET", "/apis/autoscaling")
    q.ask("resources v1", "GET", "/apis/autoscaling/v1")
    q.ask("resources v2", "GET", "/apis/autoscaling/v2")
    q.ask("deleted", "DELETE", f"{V1}/two")
    yield from q.asked


def refused() -> Iterator[Asked]:
    """An autoscaler with one thing wrong about it."""
    q = Questions("autoscalers refused")

    def ask(name: str, version: str = "v2", **spec: Any) -> None:
        path = V2 if version == "v2" else V1
        q.ask(name, "POST", f"{path}?dryRun=All", autoscaler(name.lower().replace(" ", "-"), version, **spec))

    def metric(name: str, found: Document) -> None:
        ask(name, metrics=[found])

    def up(name: str, **rules: Any) -> None:
        ask(name, behavior={"scaleUp": rules})

    for max_replicas in (0, -1, 1):
        ask(f"max {max_replicas}".replace("-", "minus"), maxReplicas=max_replicas, minReplicas=2)
    ask("v1 max 0", "v1", maxReplicas=0)
    ask("min negative", minReplicas=-1)
    ask("min zero", minReplicas=0)
    ask("min zero v1", "v1", minReplicas=0)
    ask("percent zero v1", "v1", targetCPUUtilizationPercentage=0)
    ask("no target", scaleTargetRef={})
    ask("bad target", scaleTargetRef={"kind": "a/b", "name": "..", "apiVersion": "a/b/c"})
    ask("core target", scaleTargetRef={"kind": "Deployment", "name": "x", "apiVersion": "v1"})
    ask("rc target", scaleTargetRef={"kind": "ReplicationController", "name": "x", "apiVersion": "v1"})
    ask("no version", scaleTargetRef={"kind": "ReplicaSet", "name": "x"})
    metric("no type", {})
    metric("bad type", {"type": "Weather"})
    metric("no source", {"type": "Pods"})
    metric("other source", {"type": "Pods", "resource": resource(averageUtilization=1)["resource"]})
    metric("two sources", {**PODS_METRIC, "resource": resource(averageUtilization=1)["resource"]})
    metric(
        "no target type",
        {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 5}}},
    )
    metric(
        "bad target type",
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "X", "averageUtilization": 5}}},
    )
    metric("resource both", resource(averageUtilization=5, averageValue="1"))
    metric(
        "resource neither", {"type": "Resource", "resource": {"name": "", "target": {"type": "Utilization"}}}
    )
    metric("utilization zero", resource(averageUtilization=0))
    metric(
        "values zero",
        {
            "type": "Object",
            "object": {
                "describedObject": {"kind": "A", "name": "b"},
                "metric": {"name": "a/b"},
                "target": {"type": "Value", "value": "0", "averageValue": "-1"},
            },
        },
    )
    metric("object empty", {"type": "Object", "object": {"describedObject": {}, "metric": {}, "target": {}}})
    metric(
        "object version",
        {
            "type": "Object",
            "object": {
                "describedObject": {"kind": "A", "name": "b", "apiVersion": "x/y/z"},
                "metric": {"name": "m"},
                "target": target(value="1"),
            },
        },
    )
    metric(
        "external both",
        {
            "type": "External",
            "external": {"metric": {"name": "m"}, "target": target(value="1", averageValue="2")},
        },
    )
    metric(
        "external neither",
        {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value"}}},
    )
    metric(
        "pods without", {"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "AverageValue"}}}
    )
    metric(
        "container without",
        {
            "type": "ContainerResource",
            "containerResource": {"name": "", "container": "", "target": {"type": "Utilization"}},
        },
    )
    metric(
        "container odd",
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "foo",
                "container": "A_b",
                "target": target(averageUtilization=5, averageValue="1"),
            },
        },
    )
    metric("quantity", resource(averageValue="ten"))
    up("no policies", policies=[])
    up("window", stabilizationWindowSeconds=-1, selectPolicy="Most")
    up("long window", stabilizationWindowSeconds=3601, tolerance="-1")
    up(
        "policy",
        policies=[
            {"type": "Nodes", "value": 0, "periodSeconds": 0},
            {"type": "Pods", "value": 1, "periodSeconds": 1801},
            {},
        ],
    )
    ask("disabled down", behavior={"scaleDown": {"selectPolicy": "Disabled"}})
    yield from q.asked


AUTOSCALERS: list[Asked] = [*stored(), *refused()]
