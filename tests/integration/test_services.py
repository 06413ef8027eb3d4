"""Services in a whole cluster under virtual time: who stands behind them."""

from __future__ import annotations

import pytest

from tests.integration.test_workloads import web
from weir.simulation.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster(nodes=2) as cluster:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
        }
        cluster.apply(service, web(3))
        cluster.advance(20)
        yield cluster


def behind(cluster):
    """Return the addresses that Endpoints and EndpointSlices say serve."""
    subsets = cluster.get("Endpoints", "web").get("subsets") or []
    ready = sorted(each["ip"] for subset in subsets for each in subset.get("addresses") or ())
    sliced = sorted(
        endpoint["addresses"][0]
        for each in cluster.list("EndpointSlice", selector="kubernetes.io/service-name=web")
        for endpoint in each.get("endpoints") or ()
        if endpoint["conditions"]["ready"]
    )
    return ready, sliced


def test_endpoints_follow_their_pods_up_and_down(cluster):
    def running():
        return sorted(p["status"]["podIP"] for p in cluster.list("Pod") if p["status"]["phase"] == "Running")

    at_first = (behind(cluster), (running(), running()))
    cluster.patch("Deployment", "web", {"spec": {"replicas": 1}})
    cluster.advance(30)
    assert (at_first[0], behind(cluster)) == (at_first[1], (running(), running()))
    assert len(running()) == 1


def test_they_go_with_their_service(cluster):
    cluster.delete("Service", "web")
    cluster.advance(30)
    assert (cluster.get("Endpoints", "web"), cluster.list("EndpointSlice", "default")) == (None, [])


def test_quiet_pods_write_nothing(cluster):
    before = cluster.get("Endpoints", "web")["metadata"]["resourceVersion"]
    cluster.advance(300)
    assert cluster.get("Endpoints", "web")["metadata"]["resourceVersion"] == before
