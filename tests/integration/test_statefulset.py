"""StatefulSets and disruption budgets in a whole cluster under virtual time."""

from __future__ import annotations

import pytest

from weir.errors import TooManyRequests
from weir.simulation.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster(nodes=2) as cluster:
        cluster.advance(5)
        yield cluster


def database(replicas=3, image="db:1", **spec):
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }


def names(cluster):
    return [p["metadata"]["name"] for p in cluster.list("Pod")]


def images(cluster):
    return {p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in cluster.list("Pod")}


def test_pods_come_one_after_the_other(cluster):
    cluster.apply(database())
    seen = []
    for _ in range(20):
        cluster.advance(0.5)
        if names(cluster) not in seen:
            seen.append(names(cluster))
    assert [each for each in seen if each] == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]


def test_parallel_pods_come_at_once(cluster):
    cluster.apply(database(podManagementPolicy="Parallel"))
    cluster.advance(0.5)
    assert names(cluster) == ["db-0", "db-1", "db-2"]


def test_scaling_down_takes_the_highest_first(cluster):
    cluster.apply(database())
    cluster.advance(10)
    cluster.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
    cluster.advance(10)
    assert names(cluster) == ["db-0"]


def test_a_lost_pod_comes_back_under_its_name(cluster):
    cluster.apply(database())
    cluster.advance(10)
    before = cluster.get("Pod", "db-1")["metadata"]["uid"]
    cluster.delete("Pod", "db-1")
    cluster.advance(10)
    after = cluster.get("Pod", "db-1")
    assert (after["status"]["phase"], after["metadata"]["uid"] != before) == ("Running", True)


def test_an_update_goes_from_the_highest_down_to_the_partition(cluster):
    cluster.apply(database(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}))
    cluster.advance(10)
    template = {"spec": {"containers": [{"name": "c", "image": "db:2"}]}}
    cluster.patch("StatefulSet", "db", {"spec": {"template": template}})
    cluster.advance(30)
    assert images(cluster) == {"db-0": "db:1", "db-1": "db:2", "db-2": "db:2"}


def test_a_finished_update_says_so(cluster):
    cluster.apply(database())
    cluster.advance(10)
    template = {"spec": {"containers": [{"name": "c", "image": "db:2"}]}}
    cluster.patch("StatefulSet", "db", {"spec": {"template": template}})
    cluster.advance(30)
    status = cluster.get("StatefulSet", "db")["status"]
    assert (status["updatedReplicas"], status["currentRevision"] == status["updateRevision"]) == (3, True)


def test_each_pod_has_claims_of_its_own_that_stay(cluster):
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.apply(database(2, podManagementPolicy="Parallel", volumeClaimTemplates=[claim]))
    cluster.advance(5)
    cluster.patch("StatefulSet", "db", {"spec": {"replicas": 0}})
    cluster.advance(60)
    claims = [c["metadata"]["name"] for c in cluster.list("PersistentVolumeClaim")]
    assert (names(cluster), claims) == ([], ["data-db-0", "data-db-1"])


def budget(**spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}, **spec},
    }


@pytest.mark.parametrize(
    "spec, allowed", [({"minAvailable": 2}, 1), ({"maxUnavailable": 1}, 1), ({"minAvailable": "100%"}, 0)]
)
def test_a_budget_knows_how_many_may_go(cluster, spec, allowed):
    cluster.apply(database(), budget(**spec))
    cluster.advance(15)
    status = cluster.get("PodDisruptionBudget", "db")["status"]
    assert (status["disruptionsAllowed"], status["currentHealthy"], status["expectedPods"]) == (allowed, 3, 3)


def test_an_eviction_beyond_the_budget_is_refused(cluster):
    cluster.apply(database(podManagementPolicy="Parallel"), budget(minAvailable=2))
    cluster.advance(15)
    cluster._do(cluster.client.evict("db-0", "default"))
    with pytest.raises(TooManyRequests):
        cluster._do(cluster.client.evict("db-1", "default"))
