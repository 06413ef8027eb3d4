"""The endpoints of the service `kubernetes` name the API servers that live."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver import own_endpoints
from weir.apiserver.own_endpoints import (
    COMPONENT_STATUS,
    DURATION_SECONDS,
    GONE_SECONDS,
    NAMESPACE,
    ComponentStatuses,
    IdentityLease,
    OwnEndpoints,
    advertised,
)
from weir.apiserver.printers import cells_of
from weir.certificates import issue, make_authority, subject_name
from weir.errors import BadRequest, NotFound
from weir.objects.kinds import ENDPOINT_SLICES as SLICES
from weir.objects.kinds import ENDPOINTS, LEASES


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


# ── claims about ComponentStatuses: where components are asked, and what is said of those that do not answer ──


@pytest.fixture
def closed(monkeypatch):
    """Ports where nobody serves."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    monkeypatch.setattr(
        own_endpoints, "PORTS", dict(zip(("scheduler", "controller-manager"), ports, strict=True))
    )
    return ports


async def test_who_is_away_is_unhealthy_in_the_words_of_go(closed):
    found = await ComponentStatuses().select(COMPONENT_STATUS, "", "")
    scheduler, _, store = found["items"]
    port = closed[0]
    refused = (
        f'Get "https://127.0.0.1:{port}/healthz": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )
    assert cells_of(COMPONENT_STATUS, scheduler, 0.0) == ["scheduler", "Unhealthy", refused, ""]
    assert cells_of(COMPONENT_STATUS, store, 0.0) == ["etcd-0", "Healthy", "ok", ""]


async def test_selectors_choose_and_unknown_names_are_not_found(closed):
    found = await ComponentStatuses().select(COMPONENT_STATUS, "", "metadata.name=etcd-0")
    assert [one["metadata"]["name"] for one in found["items"]] == ["etcd-0"]
    assert (await ComponentStatuses().select(COMPONENT_STATUS, "a=b", ""))["items"] == []
    with pytest.raises(BadRequest):
        await ComponentStatuses().select(COMPONENT_STATUS, "", "spec.x=y")
    with pytest.raises(NotFound, match='componentstatus "x" not found'):
        await ComponentStatuses().get("x")


async def test_who_is_well_says_so(closed, tmp_path, monkeypatch):
    now = datetime.now(UTC)
    authority = make_authority("a", now, timedelta(days=1))
    pair = issue(authority, subject_name("s"), now, timedelta(days=1), names=["127.0.0.1"])
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    monkeypatch.setitem(own_endpoints.PORTS, "scheduler", server.sockets[0].getsockname()[1])
    found = await ComponentStatuses().get("scheduler")
    server.close()
    assert found["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]


# ── API servers say that they are alive ──


def named_lease(cluster, hostname, instance="1"):
    return IdentityLease(cluster.server.verbs, cluster.clock, hostname, "10.0.0.7:6443", instance)


async def test_a_server_that_starts_again_takes_its_lease_over(cluster):
    await named_lease(cluster, "a", "first").renew()
    again = named_lease(cluster, "a", "second")
    await again.renew()
    found = cluster.find(LEASES, NAMESPACE, again.name)
    assert found["spec"]["holderIdentity"] == f"{again.name}_second"


async def test_the_lease_says_where_the_server_is(cluster):
    lease = named_lease(cluster, "a")
    await lease.renew()
    metadata = cluster.find(LEASES, NAMESPACE, lease.name)["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == (
        {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "a"},
        {"kubernetes.io/peer-advertise-address": "10.0.0.7:6443"},
    )


async def test_a_renewal_changes_only_the_time(cluster):
    lease = named_lease(cluster, "a")
    await lease.renew()
    before = cluster.find(LEASES, NAMESPACE, lease.name)["spec"]
    await cluster.clock.advance(10)
    await lease.renew()
    after = cluster.find(LEASES, NAMESPACE, lease.name)["spec"]
    assert {name for name in after if after[name] != before.get(name)} == {"renewTime"}


async def test_the_lease_of_a_server_that_is_gone_is_removed(cluster):
    gone, here = named_lease(cluster, "gone"), named_lease(cluster, "here")
    await gone.renew()
    await cluster.clock.advance(DURATION_SECONDS + 1)
    await here.renew()
    await here.sweep()
    there = [cluster.find(LEASES, NAMESPACE, lease.name) is not None for lease in (gone, here)]
    assert there == [False, True]
