"""Namespaces: what they are given, what they may use, and how they go."""

from __future__ import annotations

import pytest

from tests.integration.test_workloads import web
from weir.simulation.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster(nodes=1) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        cluster.advance(5)
        yield cluster


def quota(**hard):
    spec = {"hard": {name.replace("_", "/"): str(amount) for name, amount in hard.items()}}
    metadata = {"name": "q", "namespace": "team"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def used(cluster):
    return cluster.get("ResourceQuota", "q", "team")["status"]["used"]


def in_team(document):
    document["metadata"]["namespace"] = "team"
    return document


def config(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}}


def test_a_quota_says_what_is_used_of_it_and_follows(cluster):
    cluster.apply(quota(pods=10, services=5, **{"requests.cpu": "4", "count_deployments.apps": 3}))
    cluster.advance(1)
    at_first = used(cluster)
    document = in_team(web(3))
    resources = {"requests": {"cpu": "500m"}}
    document["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    cluster.apply(document)
    cluster.advance(20)
    full = used(cluster)
    cluster.patch("Deployment", "web", {"spec": {"replicas": 1}}, "team")
    cluster.advance(20)
    assert (at_first, full, used(cluster)) == (
        {"pods": "0", "services": "0", "requests.cpu": "0", "count/deployments.apps": "0"},
        {"pods": "3", "services": "0", "requests.cpu": "1500m", "count/deployments.apps": "1"},
        {"pods": "1", "services": "0", "requests.cpu": "500m", "count/deployments.apps": "1"},
    )


def test_kinds_nobody_watches_are_counted_every_few_minutes(cluster):
    cluster.apply(quota(configmaps=10))
    cluster.advance(1)
    at_first = used(cluster)  # the CA bundle
    cluster.apply(config("a"), config("b"))
    cluster.advance(301)
    assert (at_first, used(cluster)) == ({"configmaps": "1"}, {"configmaps": "3"})


def test_pods_that_ended_use_nothing(cluster):
    cluster.apply(quota(pods=10))
    done = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "done", "namespace": "team"}}
    cluster.apply({**done, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
    cluster.advance(30)
    assert used(cluster) == {"pods": "0"}


def test_a_service_account_and_the_ca_come_back(cluster):
    cluster.delete("ServiceAccount", "default", "team")
    cluster.patch("ConfigMap", "kube-root-ca.crt", {"data": {"ca.crt": "forged"}}, "team")
    cluster.delete("ConfigMap", "kube-root-ca.crt", "default")
    cluster.advance(5)
    real = cluster.get("ConfigMap", "kube-root-ca.crt", "kube-system")["data"]
    assert (
        cluster.get("ServiceAccount", "default", "team") is not None,
        cluster.get("ConfigMap", "kube-root-ca.crt", "team")["data"] == real,
        cluster.get("ConfigMap", "kube-root-ca.crt", "default")["data"] == real,
    ) == (True, True, True)


def test_a_namespace_says_what_holds_it(cluster):
    held = config("held")
    held["metadata"]["finalizers"] = ["example.com/keep"]
    cluster.apply(held)
    cluster.delete("Namespace", "team")
    cluster.advance(30)
    conditions = {
        c["type"]: (c["status"], c["message"])
        for c in cluster.get("Namespace", "team")["status"]["conditions"]
    }
    told = (conditions["NamespaceContentRemaining"], conditions["NamespaceFinalizersRemaining"])
    cluster.patch("ConfigMap", "held", {"metadata": {"finalizers": None}}, "team")
    cluster.advance(10)
    assert (told, cluster.get("Namespace", "team")) == (
        (
            ("True", "Some resources are remaining: configmaps. has 1 resource instances"),
            (
                "True",
                "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances",
            ),
        ),
        None,
    )


def test_pods_go_before_the_rest_of_a_namespace(cluster):
    held = {"name": "held", "namespace": "team", "finalizers": ["example.com/mine"]}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    cluster.apply(config("a"), {"apiVersion": "v1", "kind": "Pod", "metadata": held, "spec": spec})
    cluster.advance(5)
    cluster.delete("Namespace", "team", "")
    cluster.advance(60)
    assert cluster.get("Pod", "held", "team")["metadata"]["deletionTimestamp"]
    assert cluster.get("ConfigMap", "a", "team") is not None
    cluster.patch("Pod", "held", {"metadata": {"finalizers": None}}, "team")
    cluster.advance(5)
    assert (cluster.get("ConfigMap", "a", "team"), cluster.get("Namespace", "team", "")) == (None, None)
