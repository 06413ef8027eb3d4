"""The autoscaler at work in a cluster under virtual time: replicas, conditions, events, its pace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from weir.client.snapshot import VERSIONS
from weir.controllers.compat.autoscaling.horizontal_pod_autoscaler import ask
from weir.controllers.compat.autoscaling.replicas import MetricError
from weir.gates import ALL_FEATURES
from weir.simulation.cluster import Cluster
from weir.whatif.changes import Scale
from weir.whatif.run import WhatIfOptions, what_if


def asked(cluster: Cluster, **resource: Any) -> Any:
    kind = "ContainerResource" if "container" in resource else "Resource"
    metric = {"type": kind, kind[0].lower() + kind[1:]: {"target": {}, **resource}}
    return cluster._wait(ask(cluster.client, "default", "app=a", metric))


def test_the_containers_of_a_pod_add_up_unless_one_is_named() -> None:
    containers = [{"name": name, "image": "x"} for name in ("one", "two")]
    annotations = {"weir.dev/cpu-usage.one": "100m", "weir.dev/cpu-usage.two": "150m"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "a"}, "annotations": annotations},
        "spec": {"containers": containers},
    }
    with Cluster(nodes=1, controllers=("node-lifecycle",)) as cluster:
        silent = asked(cluster, name="cpu")
        assert isinstance(silent, MetricError)
        assert str(silent) == "no metrics returned from resource metrics API"
        cluster.apply(pod)
        cluster.advance(60)
        assert asked(cluster, name="cpu")["p"].value == 250
        assert asked(cluster, name="cpu", container="two")["p"].value == 150
        assert asked(cluster, name="cpu", container="three") == {}
        assert asked(cluster, name="nvidia.com/gpu") == {}


CONTROLLERS = ("deployment", "replicaset", "node-lifecycle", "horizontal-pod-autoscaler")


def deployment(replicas: int = 2, load: str = "", name: str = "web") -> dict[str, Any]:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "500m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"weir.dev/cpu-load": load} if load else {}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


def autoscaler(name: str = "web", **spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": target,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": metric}],
            **spec,
        },
    }


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, controllers=CONTROLLERS) as found:
        yield found


def replicas(cluster: Cluster) -> int:
    found = cluster.get("Deployment", "web")
    assert found is not None
    return int(found["spec"]["replicas"])


def conditions(cluster: Cluster, name: str = "web") -> dict[str, tuple[str, str]]:
    found = cluster.get("HorizontalPodAutoscaler", name)
    assert found is not None
    return {each["type"]: (each["status"], each["reason"]) for each in found["status"]["conditions"]}


def reasons(cluster: Cluster) -> set[str]:
    about = ("HorizontalPodAutoscaler",)
    return {each["reason"] for each in cluster.events() if each["involvedObject"]["kind"] in about}


def set_load(cluster: Cluster, load: str) -> None:
    cluster.patch("Deployment", "web", {"metadata": {"annotations": {"weir.dev/cpu-load": load}}})


def test_it_scales_out_with_the_load_and_comes_to_rest(cluster: Cluster) -> None:
    cluster.apply(deployment(2, load="400m"), autoscaler())
    cluster.advance(400)  # the pods' first minutes of CPU do not count
    assert replicas(cluster) == 2
    set_load(cluster, "2")
    cluster.advance(120)
    assert replicas(cluster) == 8  # 2 cores at 250m each
    assert conditions(cluster)["ScalingActive"] == ("True", "ValidMetricFound")
    event = cluster.events("SuccessfulRescale")[0]
    assert event["message"].endswith("reason: cpu resource utilization (percentage of request) above target")
    cluster.advance(600)
    assert replicas(cluster) == 8
    found = cluster.get("HorizontalPodAutoscaler", "web")
    assert found is not None
    [metric] = found["status"]["currentMetrics"]
    assert metric["resource"]["current"] == {"averageUtilization": 50, "averageValue": "250m"}
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]


def test_it_waits_five_minutes_before_it_scales_in(cluster: Cluster) -> None:
    cluster.apply(deployment(4, load="1"), autoscaler())
    cluster.advance(400)
    set_load(cluster, "250m")
    cluster.advance(240)
    assert replicas(cluster) == 4
    assert conditions(cluster)["AbleToScale"] == ("True", "ScaleDownStabilized")
    cluster.advance(120)
    assert replicas(cluster) == 1


def test_policies_set_the_pace(cluster: Cluster) -> None:
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    cluster.apply(deployment(2, load="400m"), autoscaler(behavior={"scaleUp": {"policies": [policy]}}))
    cluster.advance(400)
    set_load(cluster, "2")
    cluster.advance(70)
    assert replicas(cluster) in (3, 4)
    assert conditions(cluster)["ScalingLimited"] == ("True", "ScaleUpLimit")


def test_the_bounds_hold_without_any_metric(cluster: Cluster) -> None:
    cluster.apply(deployment(2), autoscaler(minReplicas=4, maxReplicas=6))
    cluster.advance(1)
    assert replicas(cluster) == 4
    cluster.patch("HorizontalPodAutoscaler", "web", {"spec": {"minReplicas": 1, "maxReplicas": 3}})
    cluster.advance(1)  # a new generation is looked at, at once
    assert replicas(cluster) == 3
    assert conditions(cluster)["AbleToScale"] == ("True", "SucceededRescale")


def test_a_target_scaled_to_zero_by_hand_stays_there(cluster: Cluster) -> None:
    cluster.apply(deployment(0), autoscaler())
    cluster.advance(60)
    assert replicas(cluster) == 0
    assert conditions(cluster)["ScalingActive"] == ("False", "ScalingDisabled")


def test_what_cannot_be_read_is_said(cluster: Cluster) -> None:
    cluster.apply(autoscaler())
    cluster.advance(1)
    assert conditions(cluster)["AbleToScale"] == ("False", "FailedGetScale")
    [event] = cluster.events("FailedGetScale")
    assert event["message"] == 'deployments.apps "web" not found'
    cluster.apply(deployment(1))
    cluster.advance(15)
    assert conditions(cluster)["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert {"FailedGetResourceMetric", "FailedComputeMetricsReplicas"} <= reasons(cluster)
    assert replicas(cluster) == 1


def test_custom_metrics_that_nobody_serves_are_named(cluster: Cluster) -> None:
    metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    cluster.apply(deployment(1), autoscaler(metrics=[{"type": "Pods", "pods": metric}]))
    cluster.advance(60)
    [event] = cluster.events("FailedGetPodsMetric")
    assert event["message"] == (
        "unable to get metric queue: unable to fetch metrics from custom metrics API: "
        "no custom metrics API (custom.metrics.k8s.io) registered"
    )


@pytest.mark.parametrize(
    "source, first",
    [
        (
            {
                "type": "External",
                "external": {"metric": {"name": "depth"}, "target": {"type": "Value", "value": "10"}},
            },
            "failed to get depth external metric value: failed to get external metric depth: "
            "unable to get external metric default/depth/nil: unable to fetch metrics from external metrics API: "
            "the server could not find the requested resource (get depth.external.metrics.k8s.io)",
        ),
        (
            {
                "type": "Object",
                "object": {
                    "metric": {"name": "hits"},
                    "describedObject": {"kind": "Service", "name": "front"},
                    "target": {"type": "AverageValue", "averageValue": "10"},
                },
            },
            "failed to get object metric value: failed to get hits object metric: "
            "unable to get metric hits on Service default/front: unable to fetch metrics from custom metrics API: "
            "no custom metrics API (custom.metrics.k8s.io) registered",
        ),
    ],
)
def test_metrics_from_elsewhere_scale_nothing_and_say_so(
    cluster: Cluster, source: dict[str, Any], first: str
) -> None:
    cluster.apply(deployment(2), autoscaler(metrics=[source]))
    cluster.advance(60)
    reason = f"FailedGet{source['type']}Metric"
    assert (replicas(cluster), conditions(cluster)["ScalingActive"]) == (2, ("False", reason))
    [event] = cluster.events("FailedComputeMetricsReplicas")
    assert event["message"] == f"invalid metrics (1 invalid out of 1), first error is: {first}"


def test_what_can_be_read_scales_up_beside_what_cannot(cluster: Cluster) -> None:
    outside = {"metric": {"name": "depth"}, "target": {"type": "Value", "value": "10"}}
    given = autoscaler()
    given["spec"]["metrics"].append({"type": "External", "external": outside})
    cluster.apply(deployment(1, load="4"), given)
    cluster.advance(120)
    assert replicas(cluster) > 1


def test_two_autoscalers_of_the_same_pods_do_nothing(cluster: Cluster) -> None:
    cluster.apply(deployment(2, load="4"), autoscaler("a"), autoscaler("b"))
    cluster.advance(60)
    assert replicas(cluster) == 2
    assert conditions(cluster, "b")["ScalingActive"] == ("False", "AmbiguousSelector")
    [event] = [each for each in cluster.events("AmbiguousSelector") if each["involvedObject"]["name"] == "b"]
    assert event["message"] == (
        "pods by selector app=web are controlled by more than one HPA (e.g. [default/a default/b])"
    )


def test_a_what_if_takes_the_autoscaler_and_its_load_along(cluster: Cluster) -> None:
    cluster.apply(deployment(2, load="1"), autoscaler())
    cluster.advance(500)
    assert replicas(cluster) == 4
    kinds = ("Node", "Pod", "Deployment", "ReplicaSet", "HorizontalPodAutoscaler")
    snapshot = [
        {**document, "kind": kind, "apiVersion": VERSIONS[kind][0]}
        for kind in kinds
        for document in cluster.list(kind)
    ]
    for document in snapshot:
        document["metadata"].pop("annotations", None)  # in a real cluster only the autoscaler knows the load
    seen: list[int] = []
    what_if(
        snapshot,
        [Scale("deploy/web", 1, "default")],
        WhatIfOptions(ALL_FEATURES, cluster.now, until=900),
        at_the_end=lambda copy: seen.append(replicas(copy)),
    )
    assert seen == [4]  # the autoscaler brings the pods back that the change took away
