"""A server keeps the APIServices of its groups and of its definitions, and says of other servers' what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.aggregation.controller import SYSTEM, ApiServiceController
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
    keeper = ApiServiceController(cluster.server.verbs, cluster.server.served, groups())
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


async def test_discovery_lists_what_is_registered_and_what_the_server_serves_stays_its_own(kept):
    pages = kept.server.pages._discovery
    await create(kept, API_SERVICE, _remote("a.example.com"))
    kept.server.served.join("widgets.example.com", [_custom(find_kind("apps", "v1", "deployments"))])
    service = {"service": {"namespace": "default", "name": "svc", "port": 443}}
    await kept.server.verbs.change(
        WriteRequest(API_SERVICE, "", "v1.apps", SYSTEM, "test"),
        lambda old: {**old, "spec": {**old["spec"], **service}},
    )
    await kept.clock.settle()
    assert set(kept.server.served.registered) == {("a.example.com", "v1")}
    assert list(pages.groups()) == ["example.com", "a.example.com"]  # by priority, which is 1 here
    listed = json.loads(pages.aggregated(False)[0])["items"][-2:]
    assert [one["versions"][0]["freshness"] for one in listed] == ["Current", "Stale"]
    assert "/apis/a.example.com/v1" in json.loads(pages.root_paths())["paths"]
    await remove(kept, "v1.a.example.com")
    assert not kept.server.served.registered and pages.group("a.example.com") is None


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
