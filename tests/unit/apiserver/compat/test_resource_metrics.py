"""metrics.k8s.io as metrics-server serves it: what pods and nodes use, at whole steps of time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weir import errors
from weir.objects.kinds import by_kind
from weir.objects.pod_usage import UsageModel
from weir.simulation.cluster import Cluster

PODS = by_kind("metrics.k8s.io/v1beta1", "PodMetrics")
NODES = by_kind("metrics.k8s.io/v1beta1", "NodeMetrics")


def pod(name: str, annotations: dict[str, str] | None = None, **container: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": "app:1", **container}]},
    }


def asked(cluster: Cluster, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(cluster._wait(cluster.client.call("GET", path)))
    return answer


def used(cluster: Cluster, **selectors: str) -> dict[str, dict[str, str]]:
    listed = cluster._wait(cluster.client.list(PODS, "default", **selectors))
    return {each["metadata"]["name"]: each["containers"][0]["usage"] for each in listed.documents()}


def test_a_pod_uses_what_it_says_or_half_of_what_it_asks_for() -> None:
    with Cluster(nodes=1) as cluster:
        cluster.apply(
            pod("said", {"weir.dev/cpu-usage": "750m", "weir.dev/memory-usage": "300Mi"}),
            pod("asked", resources={"requests": {"cpu": "300m", "memory": "64Mi"}}),
            pod("named", {"weir.dev/cpu-usage": "1", "weir.dev/cpu-usage.c": "2"}),
            pod("wrong", {"weir.dev/cpu-usage": "much"}),
        )
        cluster.advance(60)
        assert used(cluster) == {
            "said": {"cpu": "750m", "memory": "300Mi"},
            "asked": {"cpu": "150m", "memory": "32Mi"},
            "named": {"cpu": "2", "memory": "10Mi"},
            "wrong": {"cpu": "1m", "memory": "10Mi"},
        }
        assert list(used(cluster, label_selector="app in (said,asked)")) == ["asked", "said"]
        assert list(used(cluster, field_selector="metadata.name=said")) == ["said"]


def test_a_container_has_no_metrics_before_it_was_measured_and_none_after_it_ended() -> None:
    with Cluster(nodes=1) as cluster:
        cluster.advance(15 - cluster.clock.time() % 15 + 1)
        cluster.apply(pod("p"))
        cluster.advance(5)
        assert cluster.get("Pod", "p")["status"]["phase"] == "Running"  # type: ignore[index]
        assert used(cluster) == {}
        cluster.advance(10)
        assert list(used(cluster)) == ["p"]
        first = asked(cluster, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p")
        cluster.advance(10)
        assert asked(cluster, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p") == first
        cluster.delete("Pod", "p")
        cluster.advance(40)
        assert used(cluster) == {}
        with pytest.raises(errors.NotFound):
            asked(cluster, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p")


def test_the_pods_of_a_workload_share_its_load() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"weir.dev/cpu-load": "1200m"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]},
        },
    }
    with Cluster(nodes=1) as cluster:
        cluster.apply(deployment)
        cluster.advance(60)
        assert [usage["cpu"] for usage in used(cluster).values()] == ["400m"] * 3
        cluster.patch("Deployment", "web", {"spec": {"replicas": 4}})
        cluster.patch("Deployment", "web", {"metadata": {"annotations": {"weir.dev/cpu-load": "2"}}})
        cluster.advance(60)
        assert [usage["cpu"] for usage in used(cluster).values()] == ["500m"] * 4


def test_a_node_uses_what_its_pods_use_and_a_little_itself() -> None:
    with Cluster(nodes=2) as cluster:
        cluster.apply(pod("p", {"weir.dev/cpu-usage": "750m", "weir.dev/memory-usage": "100Mi"}))
        cluster.advance(60)
        listed = cluster._wait(cluster.client.list(NODES)).documents()
        assert sorted(each["usage"]["cpu"] for each in listed) == ["50m", "800m"]
        assert sorted(each["usage"]["memory"] for each in listed) == ["200Mi", "300Mi"]


def test_pods_of_which_nothing_is_known_have_no_metrics_when_asked_so() -> None:
    with Cluster(nodes=1, usage=UsageModel(share=None)) as cluster:
        cluster.apply(pod("quiet"), pod("said", {"weir.dev/cpu-usage": "750m"}))
        cluster.advance(60)
        assert used(cluster) == {"said": {"cpu": "750m"}}
