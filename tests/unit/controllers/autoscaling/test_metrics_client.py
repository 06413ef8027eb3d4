"""What the metrics API says, as an autoscaler reads it."""

from __future__ import annotations

from typing import Any

from weir.controllers.autoscaling.metrics_client import ask
from weir.controllers.autoscaling.replica_calculator import MetricError
from weir.simulation.cluster import Cluster


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
