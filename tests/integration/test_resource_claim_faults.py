"""Claims in bad weather: whatever is late, comes twice or fails, every pod has its claim and nothing is left behind."""

from __future__ import annotations

import asyncio
import random
from contextlib import contextmanager

import pytest

from tests.integration.test_device_taint_eviction_faults import Weather
from tests.unit.controllers.devices.test_resource_claim import (
    ALLOCATION,
    FINALIZER,
    consumer,
    plain,
    pod,
    template,
)
from weir.controllers.cluster.garbage_collector import GarbageCollector
from weir.controllers.devices.resource_claim import ResourceClaims
from weir.controllers.runtime.runner import Controllers
from weir.gates import ALL_FEATURES
from weir.objects.kinds import RESOURCE_CLAIMS as CLAIMS
from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster
from weir.simulation.control_plane import local_client

PODS = by_kind("v1", "Pod")


@contextmanager
def stormy(seed, **weather):
    with Cluster(controllers=["namespace"]) as cluster:
        client = local_client(cluster._running, cluster.clock, "kube-controller-manager")
        client._transport = Weather(client._transport, cluster.clock, seed, **weather)
        parts = [ResourceClaims(ALL_FEATURES), GarbageCollector(ALL_FEATURES)]

        async def begin():
            return asyncio.ensure_future(Controllers(client, cluster.clock, parts).run())

        task = cluster._do(begin())
        try:
            yield cluster
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            cluster._wait(asyncio.gather(task, return_exceptions=True))


def allocate(cluster, name, pods):
    """Do what a scheduler does; it may find that somebody was faster."""
    reserved = [consumer(each["metadata"]["name"], each["metadata"]["uid"]) for each in pods]
    cluster.patch("ResourceClaim", name, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": ALLOCATION, "reservedFor": reserved}
    cluster._do(cluster.client.patch(CLAIMS, name, {"status": status}, "default", subresource="status"))


@pytest.mark.parametrize("seed", range(4))
def test_every_pod_that_lives_has_one_claim_and_every_other_claim_is_gone(seed):
    rng = random.Random(seed)
    with stormy(seed, twice=0.3, late_seconds=0.05, failing=0.15) as cluster:
        alive = {}
        for number in range(40):
            if number == 10:
                cluster.create(template())  # the first pods had to wait for it
            if alive and rng.random() < 0.4:
                name = rng.choice(sorted(alive))
                del alive[name]
                cluster._do(cluster.client.delete(PODS, name, "default", grace_period_seconds=0))
            else:
                name = f"p-{number}"
                alive[name] = cluster.create(plain(pod(name)))
            if rng.random() < 0.5:
                cluster.advance(rng.random())
            for claim in cluster.list("ResourceClaim"):
                owner = claim["metadata"]["ownerReferences"][0]["name"]
                free = (
                    not claim["metadata"].get("finalizers") and "deletionTimestamp" not in claim["metadata"]
                )
                if free and owner in alive and rng.random() < 0.3:
                    allocate(cluster, claim["metadata"]["name"], [alive[owner]])
        cluster.advance(600)
        told = {
            each["metadata"]["name"]: each["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
            for each in cluster.list("Pod")
        }
        owners = {
            claim["metadata"]["name"]: claim["metadata"]["ownerReferences"][0]["name"]
            for claim in cluster.list("ResourceClaim")
        }
        assert set(told) == set(alive)
        assert all(owners[claim] == name for name, claim in told.items())
        assert set(owners.values()) == set(alive)  # nobody's claim outlived its pod


@pytest.mark.parametrize("seed", range(4))
def test_without_lost_answers_no_pod_ever_has_two_claims(seed):
    with stormy(seed, twice=0.5, late_seconds=0.3) as cluster:
        cluster.create(template())
        for number in range(30):
            cluster.create(plain(pod(f"p-{number}")))
        cluster.advance(60)
        assert len(cluster.list("ResourceClaim")) == 30


@pytest.mark.parametrize("seed", range(4))
def test_a_shared_claim_is_free_once_its_last_user_is_gone(seed):
    with stormy(seed, twice=0.3, late_seconds=0.1, failing=0.3) as cluster:
        spec = template()["spec"]["spec"]
        cluster.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "c"},
                "spec": spec,
            }
        )
        users = [cluster.create(plain(pod(f"p-{number}", claim="c"))) for number in range(5)]
        allocate(cluster, "c", users)
        for number in range(4):
            cluster._do(cluster.client.delete(PODS, f"p-{number}", "default", grace_period_seconds=0))
        cluster.advance(60)
        before = cluster.get("ResourceClaim", "c")["status"]
        cluster._do(cluster.client.delete(PODS, "p-4", "default", grace_period_seconds=0))
        cluster.advance(60)
        after = cluster.get("ResourceClaim", "c")
        assert ([each["name"] for each in before["reservedFor"]], "allocation" in before) == (["p-4"], True)
        assert (after["status"], after["metadata"].get("finalizers")) == ({}, None)
