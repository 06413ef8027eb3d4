"""Whatever is deleted, in the foreground or with orphans, is gone in the end: pods and nodes, too."""

from __future__ import annotations

import pytest

from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster(nodes=1) as cluster:
        cluster.advance(5)
        yield cluster


def config(name, kind, owner, namespace="default"):
    reference = {
        "apiVersion": "v1",
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    metadata = {"name": name, "namespace": namespace, "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def owner_of(cluster, kind):
    """Return an object of *kind*, and where it is."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    if kind == "Pod":
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}, "spec": spec})
    elif kind == "ReplicationController":
        template = {"metadata": {"labels": {"app": "it"}}, "spec": spec}
        cluster.apply(
            {"apiVersion": "v1", "kind": kind, "metadata": {"name": "it"},
             "spec": {"replicas": 1, "selector": {"app": "it"}, "template": template}}
        )  # fmt: skip
    elif kind == "LimitRange":
        limits = [{"type": "Pod", "max": {"cpu": "4"}}]
        cluster.apply(
            {"apiVersion": "v1", "kind": kind, "metadata": {"name": "it"}, "spec": {"limits": limits}}
        )
    else:
        cluster.add_node("it")
    cluster.advance(5)
    return cluster.get(kind, "it")


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", "Background"])
@pytest.mark.parametrize("kind", ["Pod", "Node", "ReplicationController", "LimitRange"])
def test_it_goes_and_takes_or_leaves_what_it_owns(cluster, kind, policy):
    owner = owner_of(cluster, kind)
    cluster.apply(config("owned", kind, owner))
    cluster.advance(5)
    resource = by_kind("v1", kind)
    namespace = "default" if resource.namespaced else ""
    cluster._do(cluster.client.delete(resource, "it", namespace, propagation_policy=policy))
    cluster.advance(30)
    left = cluster.get("ConfigMap", "owned")
    assert (cluster.get(kind, "it"), left is not None) == (None, policy == "Orphan")


def test_an_owner_in_another_namespace_owns_nothing_and_is_told_of(cluster):
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far", "namespace": "other"}}
    )
    owner = cluster.get("ConfigMap", "far", "other")
    cluster.apply(config("owned", "ConfigMap", owner))
    cluster.advance(30)
    uid = owner["metadata"]["uid"]
    assert (cluster.get("ConfigMap", "owned"), [e["message"] for e in cluster.events("OwnerRefInvalidNamespace")]) == (
        None,
        [f'ownerRef [v1/ConfigMap, namespace: default, name: far, uid: {uid}] does not exist in namespace "default"'],
    )  # fmt: skip


def configs_owning_each_other(cluster, *pairs):
    """Create config maps, then give each the owners that it has: pairs of a name and its owner's."""
    names = sorted({name for pair in pairs for name in pair})
    for name in names:
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    for name in names:
        references = [
            config(name, "ConfigMap", cluster.get("ConfigMap", owner))["metadata"]["ownerReferences"][0]
            for owned, owner in pairs
            if owned == name
        ]
        if references:
            cluster.patch("ConfigMap", name, {"metadata": {"ownerReferences": references}})
    cluster.advance(5)


def delete_in_foreground(cluster, name):
    cluster._do(
        cluster.client.delete(by_kind("v1", "ConfigMap"), name, "default", propagation_policy="Foreground")
    )
    cluster.advance(30)


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_circle_of_owners_goes(cluster, length):
    names = [f"c{i}" for i in range(length)]
    configs_owning_each_other(cluster, *((names[i], names[i - 1]) for i in range(length)))
    delete_in_foreground(cluster, "c0")
    assert [cluster.get("ConfigMap", name) for name in names] == [None] * length


def test_an_owner_does_not_wait_for_what_another_keeps(cluster):
    configs_owning_each_other(cluster, ("shared", "going"), ("shared", "staying"), ("own", "going"))
    delete_in_foreground(cluster, "going")
    left = cluster.get("ConfigMap", "shared")
    assert [owner["name"] for owner in left["metadata"]["ownerReferences"]] == ["staying"]
    assert [cluster.get("ConfigMap", name) for name in ("going", "own")] == [None, None]


def test_an_owner_goes_once_its_dependent_is_released_by_hand(cluster):
    configs_owning_each_other(cluster, ("held", "going"))
    cluster.patch("ConfigMap", "held", {"metadata": {"finalizers": ["example.com/mine"]}})
    delete_in_foreground(cluster, "going")
    assert cluster.get("ConfigMap", "going") is not None
    cluster.patch("ConfigMap", "held", {"metadata": {"ownerReferences": None}})
    cluster.advance(5)
    assert cluster.get("ConfigMap", "going") is None
