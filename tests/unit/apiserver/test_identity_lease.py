"""API servers say that they are alive."""

from __future__ import annotations

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.identity_lease import DURATION_SECONDS, LEASES, NAMESPACE, IdentityLease


@pytest.fixture
async def cluster():
    cluster = Cluster(GATES_ON)
    await cluster.start()
    return cluster


def lease_of(cluster, hostname, instance="1"):
    return IdentityLease(cluster.server.verbs, cluster.clock, hostname, "10.0.0.7:6443", instance)


async def test_a_server_that_starts_again_takes_its_lease_over(cluster):
    await lease_of(cluster, "a", "first").renew()
    again = lease_of(cluster, "a", "second")
    await again.renew()
    found = cluster.find(LEASES, NAMESPACE, again.name)
    assert found["spec"]["holderIdentity"] == f"{again.name}_second"


async def test_the_lease_says_where_the_server_is(cluster):
    lease = lease_of(cluster, "a")
    await lease.renew()
    metadata = cluster.find(LEASES, NAMESPACE, lease.name)["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == (
        {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "a"},
        {"kubernetes.io/peer-advertise-address": "10.0.0.7:6443"},
    )


async def test_a_renewal_changes_only_the_time(cluster):
    lease = lease_of(cluster, "a")
    await lease.renew()
    before = cluster.find(LEASES, NAMESPACE, lease.name)["spec"]
    await cluster.clock.advance(10)
    await lease.renew()
    after = cluster.find(LEASES, NAMESPACE, lease.name)["spec"]
    assert {name for name in after if after[name] != before.get(name)} == {"renewTime"}


async def test_the_lease_of_a_server_that_is_gone_is_removed(cluster):
    gone, here = lease_of(cluster, "gone"), lease_of(cluster, "here")
    await gone.renew()
    await cluster.clock.advance(DURATION_SECONDS + 1)
    await here.renew()
    await here.sweep()
    there = [cluster.find(LEASES, NAMESPACE, lease.name) is not None for lease in (gone, here)]
    assert there == [False, True]
