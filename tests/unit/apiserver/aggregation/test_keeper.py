"""A server keeps the APIServices of its groups and of its definitions, and says of other servers' what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.aggregation.keeper import SYSTEM, ApiServiceKeeper
from weir.apiserver.aggregation.objects import API_SERVICE, MANAGED, SERVICE
from weir.apiserver.registry.write_request import WriteRequest
from weir.objects.kinds import find as find_kind
from weir.objects.kinds import groups
from weir.store import Write


@pytest.fixture
async def kept():
    """A server with its keeper at work."""
    cluster = Cluster(GATES_ON)
    await cluster.start()
    keeper = ApiServiceKeeper(cluster.server.verbs, cluster.server.served, groups())
    await keeper.start()
    await cluster.clock.settle()
    yield cluster
    keeper.stop()


async def create(cluster: Any, kind: Any, document: dict[str, Any], namespace: str = "") -> None:
    write = WriteRequest(kind, namespace, "", SYSTEM, "test")
    await cluster.server.verbs.create_document(write, document)
    await cluster.clock.settle()


async def remove(cluster: Any, name: str) -> None:
    found = cluster.server.verbs.store.get(API_SERVICE.key("", name))
    await cluster.server.verbs.store.commit((Write(API_SERVICE.key("", name), None, found.mod_revision),))
    await cluster.clock.settle()


def available(cluster: Any, name: str) -> tuple[str, str]:
    (condition,) = cluster.find(API_SERVICE, "", name)["status"]["conditions"]
    return condition["status"], condition["reason"]


async def test_its_own_groups_are_registered_once(kept):
    found = kept.find(API_SERVICE, "", "v1.apps")
    assert found["metadata"]["labels"] == {MANAGED: "onstart"}
    assert available(kept, "v1.apps") == ("True", "Local")
    assert found["spec"]["groupPriorityMinimum"] == 17800
    await remove(kept, "v1.apps")
    assert kept.find(API_SERVICE, "", "v1.apps") is None


async def test_the_groups_of_definitions_come_and_go_with_them(kept):
    row = find_kind("apps", "v1", "deployments")
    kept.server.served.join("widgets.example.com", [_custom(row)])
    await create(kept, API_SERVICE, _remote("b.example.com"))  # something changes, and it looks
    assert kept.find(API_SERVICE, "", "v1.example.com")["metadata"]["labels"] == {MANAGED: "true"}
    await remove(kept, "v1.example.com")
    assert kept.find(API_SERVICE, "", "v1.example.com") is not None
    kept.server.served.leave("widgets.example.com")
    await remove(kept, "v1.b.example.com")
    assert kept.find(API_SERVICE, "", "v1.example.com") is None


async def test_another_server_s_group_says_what_is_missing(kept):
    await create(kept, API_SERVICE, _remote("a.example.com"))
    assert available(kept, "v1.a.example.com") == ("False", "ServiceNotFound")
    spec = {"ports": [{"port": 443}], "clusterIP": "10.0.0.77"}
    await create(
        kept, SERVICE, {"metadata": {"name": "svc", "namespace": "default"}, "spec": spec}, "default"
    )
    assert available(kept, "v1.a.example.com") == ("False", "EndpointsNotFound")


def _remote(group: str) -> dict[str, Any]:
    service = {"namespace": "default", "name": "svc", "port": 443}
    spec = {
        "group": group,
        "version": "v1",
        "service": service,
        "groupPriorityMinimum": 1,
        "versionPriority": 1,
    }
    return {"metadata": {"name": f"v1.{group}"}, "spec": spec}


def _custom(row: Any) -> Any:
    """Return a kind of a group that is not in the table."""
    from weir.objects.kind import Kind

    return Kind("example.com", "v1", "Widget", "widgets", verbs=row.verbs)
