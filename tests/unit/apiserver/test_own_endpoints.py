"""The endpoints of the service `kubernetes` name the API servers that live."""

from __future__ import annotations

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.identity_lease import IdentityLease
from weir.apiserver.own_endpoints import ENDPOINTS, GONE_SECONDS, SLICES, OwnEndpoints, advertised


@pytest.fixture
async def cluster():
    cluster = Cluster(GATES_ON)
    await cluster.start()
    return cluster


def endpoints_of(cluster, address="10.9.0.7", port=6443):
    return OwnEndpoints(cluster.server.verbs, cluster.clock, address, port)


def lease_of(cluster, hostname, address):
    return IdentityLease(cluster.server.verbs, cluster.clock, hostname, address, "1")


def addresses(cluster):
    """Return those of the Endpoints and of the slice, which always agree."""
    (subset,) = cluster.find(ENDPOINTS, "default", "kubernetes")["subsets"]
    found = [each["ip"] for each in subset["addresses"]]
    slice_ = cluster.find(SLICES, "default", "kubernetes")
    assert [each["addresses"] for each in slice_["endpoints"]] == [[address] for address in found]
    assert slice_["ports"] == subset["ports"]
    return found


async def test_a_server_is_an_endpoint_of_its_service(cluster):
    await endpoints_of(cluster).reconcile()
    found = cluster.find(ENDPOINTS, "default", "kubernetes")
    assert found["subsets"] == [
        {"addresses": [{"ip": "10.9.0.7"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}
    ]
    assert found["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    slice_ = cluster.find(SLICES, "default", "kubernetes")
    assert slice_["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert (slice_["addressType"], slice_["endpoints"][0]["conditions"]) == ("IPv4", {"ready": True})
    assert addresses(cluster) == ["10.9.0.7"]


async def test_servers_that_renew_their_lease_are_endpoints_too(cluster):
    await lease_of(cluster, "b", "10.9.0.10:6443").renew()
    await lease_of(cluster, "c", "127.0.0.1:6443").renew()
    own = endpoints_of(cluster)
    await own.reconcile()
    assert addresses(cluster) == ["10.9.0.7", "10.9.0.10"]
    await cluster.clock.advance(GONE_SECONDS + 1)
    await own.reconcile()
    assert addresses(cluster) == ["10.9.0.7"]


async def test_looking_again_writes_nothing(cluster):
    own = endpoints_of(cluster)
    await own.reconcile()
    before = cluster.find(ENDPOINTS, "default", "kubernetes")["metadata"]["resourceVersion"]
    await own.reconcile()
    await endpoints_of(cluster).reconcile()
    assert cluster.find(ENDPOINTS, "default", "kubernetes")["metadata"]["resourceVersion"] == before


async def test_two_servers_of_one_host_do_not_take_turns(cluster):
    first, second = endpoints_of(cluster, port=6443), endpoints_of(cluster, port=6444)
    await first.reconcile()
    await second.reconcile()
    await first.reconcile()
    assert cluster.find(SLICES, "default", "kubernetes")["ports"][0]["port"] == 6444


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0", "", "::1"])
def test_no_endpoint_is_a_loopback_address(bound):
    assert not advertised(bound).startswith(("127.", "0.", ":"))


def test_a_name_is_no_endpoint():
    assert advertised("weir.example") == ""
