"""What is seen of the control plane, and what cannot be seen."""

from __future__ import annotations

import asyncio

import pytest

from tests.stock.virtual import StockCluster
from weir.operator.control_plane import api_servers, managers


@pytest.fixture(scope="module")
def cluster():
    with StockCluster(install=False) as made:
        yield made


def manager(name, *command):
    labels = {"component": "kube-controller-manager"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i", "command": list(command)}]},
    }


@pytest.mark.parametrize(
    ("flag", "without"),
    [
        ("--leader-elect=true", ()),
        ("--controllers=*,bootstrapsigner,tokencleaner", ()),
        ("--controllers=*,-taint-eviction-controller", ("taint-eviction-controller",)),
        ("--controllers=endpoint-slice-controller", ("taint-eviction-controller",)),
    ],
)
def test_what_kube_controller_manager_runs_without(cluster, flag, without):
    cluster.create(manager("m", "kube-controller-manager", flag))
    found = cluster._do(managers(cluster.client))
    cluster.delete("Pod", "m", "kube-system")
    assert (found.seen, found.without) == (1, without)


def test_a_hidden_one_is_not_seen(cluster):
    assert cluster._do(managers(cluster.client)).seen == 0


def test_api_servers_are_counted_by_their_addresses(monkeypatch):
    class Client:
        found: dict | None = None

        async def find(self, kind, name, namespace):
            assert (kind.kind, name, namespace) == ("EndpointSlice", "kubernetes", "default")
            return self.found

    client = Client()
    assert asyncio.run(api_servers(client)) == 0
    client.found = {"endpoints": [{"addresses": ["192.0.2.1"]}, {"addresses": ["192.0.2.2"]}]}
    assert asyncio.run(api_servers(client)) == 2
