"""Custom resources among the others: owners and owned, namespaces that go, quotas that count, a definition's end."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.compat.customresources.world import definition
from weir.errors import Forbidden, NotFound
from weir.objects.kind import Kind
from weir.objects.kinds import by_kind
from weir.simulation.cluster import Cluster

DEFINITIONS = by_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
WIDGETS = Kind("example.com", "v1", "Widget", "widgets")
CONFIGS = by_kind("v1", "ConfigMap")
QUOTAS = by_kind("v1", "ResourceQuota")
SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}}


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        cluster._do(cluster.client.create(DEFINITIONS, definition(SCHEMA)))
        cluster.advance(5)
        yield cluster


def widget(name, namespace="default", owner=None, kind="ConfigMap", version="v1"):
    metadata = {"name": name, "namespace": namespace}
    if owner is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": version, "kind": kind, "name": owner["metadata"]["name"],
             "uid": owner["metadata"]["uid"]}
        ]  # fmt: skip
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": 1}}


def create(cluster, kind, document):
    return cluster._do(cluster.client.create(kind, document, document["metadata"].get("namespace", "")))


def is_there(cluster, kind, name, namespace="default"):
    return cluster._do(cluster.client.find(kind, name, namespace)) is not None


@pytest.mark.parametrize("policy", ["Foreground", "Background"])
def test_what_a_custom_resource_owns_goes_with_it(cluster, policy):
    owner = create(cluster, WIDGETS, widget("owner"))
    owned = {**widget("owned", owner=owner, kind="Widget", version="example.com/v1")}
    create(cluster, CONFIGS, {**owned, "apiVersion": "v1", "kind": "ConfigMap"} | {"spec": None})
    create(cluster, WIDGETS, {**owned, "metadata": {**owned["metadata"], "name": "too"}})
    cluster.advance(5)
    assert is_there(cluster, CONFIGS, "owned")
    cluster._do(cluster.client.delete(WIDGETS, "owner", "default", propagation_policy=policy))
    cluster.advance(30)
    assert not is_there(cluster, WIDGETS, "owner")
    assert not is_there(cluster, CONFIGS, "owned")
    assert not is_there(cluster, WIDGETS, "too")


def test_a_custom_resource_goes_with_its_owner_or_is_let_go(cluster):
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    owner = create(cluster, CONFIGS, config)
    create(cluster, WIDGETS, widget("gone", owner=owner))
    cluster.advance(5)
    cluster._do(cluster.client.delete(CONFIGS, "c", "default", propagation_policy="Background"))
    cluster.advance(30)
    assert not is_there(cluster, WIDGETS, "gone")
    owner = create(cluster, CONFIGS, config)
    create(cluster, WIDGETS, widget("kept", owner=owner))
    cluster.advance(5)
    cluster._do(cluster.client.delete(CONFIGS, "c", "default", propagation_policy="Orphan"))
    cluster.advance(30)
    kept = cluster._do(cluster.client.find(WIDGETS, "kept", "default"))
    assert "ownerReferences" not in kept["metadata"]


def test_a_namespace_takes_custom_resources_with_it(cluster):
    namespaces = by_kind("v1", "Namespace")
    create(cluster, namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    create(cluster, WIDGETS, widget("inside", "team"))
    cluster._do(cluster.client.delete(namespaces, "team"))
    cluster.advance(30)
    assert not is_there(cluster, namespaces, "team", "")
    assert not is_there(cluster, WIDGETS, "inside", "team")


def test_a_quota_counts_custom_resources(cluster):
    hard = {"count/widgets.example.com": "1"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota",
             "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}  # fmt: skip
    create(cluster, WIDGETS, widget("one"))
    create(cluster, QUOTAS, quota)
    cluster.advance(10)
    found = cluster._do(cluster.client.find(QUOTAS, "q", "default"))
    assert found["status"]["used"] == {"count/widgets.example.com": "1"}
    with pytest.raises(Forbidden, match="exceeded quota: q, requested: count"):
        create(cluster, WIDGETS, widget("two"))


def test_a_definition_that_goes_is_watched_no_longer(cluster):
    create(cluster, WIDGETS, widget("one"))
    cluster._do(cluster.client.delete(DEFINITIONS, "widgets.example.com"))
    cluster.advance(30)
    assert not is_there(cluster, DEFINITIONS, "widgets.example.com", "")
    with pytest.raises(NotFound):
        cluster._do(cluster.client.list(WIDGETS, "default"))
