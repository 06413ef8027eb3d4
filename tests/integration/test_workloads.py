"""Deployments, ReplicaSets, garbage collection and namespaces in a whole cluster under virtual time."""

from __future__ import annotations

import pytest

from tests.integration.living import NODES, PODS, living
from weir.controllers.catalog import choose
from weir.controllers.runtime.runner import Controllers
from weir.gates import ALL_FEATURES
from weir.objects.kinds import DEPLOYMENTS, by_kind
from weir.objects.kinds import REPLICA_SETS as REPLICASETS
from weir.scheduler.config import SchedulerConfig
from weir.scheduler.run import Scheduler
from weir.simulation.kubelet.node_classes import NodeClass, node_document
from weir.simulation.kubelet.run import Kubelets

NAMESPACES = by_kind("v1", "Namespace")


@pytest.fixture
async def cluster():
    async with living() as cluster:
        config = SchedulerConfig(leader_elect=False)
        cluster.start(Scheduler(cluster.client_of("scheduler"), ALL_FEATURES, cluster.clock, config=config))
        cluster.start(Kubelets(cluster.client_of("kubelet"), ALL_FEATURES, cluster.clock))
        cluster.start(Controllers(cluster.client_of("weir"), cluster.clock, choose(["*"], ALL_FEATURES)))
        now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        for number in range(3):
            await cluster.client.create(NODES, node_document(f"n{number}", NodeClass(), (), {}, now))
        await cluster.advance(5)
        yield cluster


def web(replicas=3, image="web:1", **spec):
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def images(cluster):
    pods = [p for p in await cluster.all(PODS) if not p["metadata"].get("deletionTimestamp")]
    return sorted(p["spec"]["containers"][0]["image"] for p in pods if p["status"]["phase"] == "Running")


async def change(cluster, patch):
    await cluster.client.patch(DEPLOYMENTS, "web", {"spec": patch}, "default")


def image(name):
    return {"template": {"spec": {"containers": [{"name": "c", "image": name}]}}}


async def test_a_deployment_gets_its_pods_and_says_so(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)
    status = (await cluster.find(DEPLOYMENTS, "web"))["status"]
    conditions = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert (await images(cluster), status["availableReplicas"], conditions) == (
        ["web:1"] * 3,
        3,
        {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        },
    )


async def test_only_a_change_of_what_is_wanted_is_a_new_generation(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)

    async def counted():
        found = await cluster.client.get(DEPLOYMENTS, "web", "default")
        revision = found["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
        return found["metadata"]["generation"], found["status"]["observedGeneration"], revision

    assert await counted() == (1, 1, "1")  # the controller's note of the revision comes with the status
    await change(cluster, image("web:2"))
    await cluster.advance(30)
    assert await counted() == (2, 2, "2")
    await cluster.client.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": {"by": "hand"}}}, "default")
    await cluster.advance(10)
    assert await counted() == (3, 3, "2")


async def test_scaling_up_and_down(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)
    await change(cluster, {"replicas": 7})
    await cluster.advance(10)
    up = len(await images(cluster))
    await change(cluster, {"replicas": 2})
    await cluster.advance(10)
    assert (up, len(await images(cluster))) == (7, 2)


async def test_a_rolling_update_never_has_too_few_or_too_many(cluster):
    await cluster.client.create(
        DEPLOYMENTS,
        web(4, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
    )
    await cluster.advance(10)
    await change(cluster, image("web:2"))
    seen = []
    for _ in range(120):
        await cluster.advance(0.25)
        active = [p for p in await cluster.all(PODS) if not p["metadata"].get("deletionTimestamp")]
        ready = [p for p in active if p["status"]["phase"] == "Running"]
        seen.append((len(ready) >= 3, len(active) <= 5))
    assert (set(seen), await images(cluster)) == ({(True, True)}, ["web:2"] * 4)


async def test_rolling_back_uses_the_old_replicaset_again(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)
    for name in ("web:2", "web:1"):
        await change(cluster, image(name))
        await cluster.advance(60)
    sets = {
        r["spec"]["template"]["spec"]["containers"][0]["image"]: (
            r["spec"]["replicas"],
            r["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        )
        for r in await cluster.all(REPLICASETS)
    }
    assert sets == {"web:1": (3, "3"), "web:2": (0, "2")}


async def test_a_paused_deployment_does_not_roll(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)
    await change(cluster, {"paused": True, **image("web:2")})
    await cluster.advance(30)
    paused = await images(cluster)
    await change(cluster, {"paused": False})
    await cluster.advance(60)
    assert (paused, await images(cluster)) == (["web:1"] * 3, ["web:2"] * 3)


async def test_recreate_stops_the_old_before_it_starts_the_new(cluster):
    await cluster.client.create(DEPLOYMENTS, web(strategy={"type": "Recreate"}))
    await cluster.advance(10)
    await change(cluster, image("web:2"))
    mixed = []
    for _ in range(40):
        await cluster.advance(0.5)
        found = {p["spec"]["containers"][0]["image"] for p in await cluster.all(PODS)}
        mixed.append(len(found) > 1)
    assert (any(mixed), await images(cluster)) == (False, ["web:2"] * 3)


async def test_a_deleted_pod_is_replaced(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)
    name = (await cluster.all(PODS))[0]["metadata"]["name"]
    await cluster.client.delete(PODS, name, "default")
    await cluster.advance(10)
    names = [p["metadata"]["name"] for p in await cluster.all(PODS)]
    assert (len(names), name in names) == (3, False)


async def test_pods_follow_their_deployment(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)
    await cluster.client.delete(DEPLOYMENTS, "web", "default", propagation_policy="Background")
    await cluster.advance(20)
    assert (await cluster.all(REPLICASETS), await cluster.all(PODS)) == ([], [])


async def test_in_the_foreground_the_owner_goes_last(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)
    await cluster.client.delete(DEPLOYMENTS, "web", "default", propagation_policy="Foreground")
    await cluster.advance(0.5)
    waiting = await cluster.find(DEPLOYMENTS, "web")
    await cluster.advance(30)
    assert (waiting is not None, await cluster.find(DEPLOYMENTS, "web"), await cluster.all(PODS)) == (
        True,
        None,
        [],
    )


async def test_orphans_stay_and_forget_their_owner(cluster):
    await cluster.client.create(DEPLOYMENTS, web())
    await cluster.advance(10)
    await cluster.client.delete(DEPLOYMENTS, "web", "default", propagation_policy="Orphan")
    await cluster.advance(20)
    (left,) = await cluster.all(REPLICASETS)
    assert (left["metadata"].get("ownerReferences"), len(await images(cluster))) == (None, 3)


async def test_a_deleted_namespace_is_emptied_and_goes(cluster):
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "team"}})
    document = web()
    document["metadata"]["namespace"] = "team"
    await cluster.client.create(DEPLOYMENTS, document)
    await cluster.advance(10)
    await cluster.client.delete(NAMESPACES, "team")
    await cluster.advance(30)
    assert await cluster.find(NAMESPACES, "team") is None


async def test_a_pod_evicted_by_a_taint_comes_back_elsewhere(cluster):
    await cluster.client.create(DEPLOYMENTS, web(6))
    await cluster.advance(10)
    await cluster.taint("n0", {"key": "flaky", "value": "", "effect": "NoExecute"})
    await cluster.advance(20)
    places = {p["spec"]["nodeName"] for p in await cluster.all(PODS)}
    assert (places, len(await images(cluster))) == ({"n1", "n2"}, 6)


async def test_a_quota_refuses_the_rest_of_one_burst_and_the_next_is_not_begun(cluster):
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "5"}}}
    await cluster.client.create(by_kind("v1", "ResourceQuota"), quota, "default")
    await cluster.advance(1)
    await cluster.client.create(DEPLOYMENTS, web(replicas=20))
    await cluster.advance(0.05)  # a refused creation is tried again after 0.1 seconds
    (refused,) = await cluster.events("FailedCreate")
    # Bursts of 1, 2 and 4 have room for 5: of the third two are refused, and told once.
    assert (len(await cluster.all(PODS)), refused["count"]) == (5, 2)
    (replicaset,) = await cluster.all(REPLICASETS)
    (failure,) = replicaset["status"]["conditions"]
    assert (failure["type"], failure["reason"]) == ("ReplicaFailure", "FailedCreate")
