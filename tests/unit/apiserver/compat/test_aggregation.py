"""Claims about registered groups: who keeps them, and what is answered for those of other servers."""

import asyncio
import json
from typing import Any

import pytest

from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.compat.aggregation import (
    API_SERVICE,
    MANAGED,
    SYSTEM,
    ApiServiceController,
    at_start,
    availability,
    judged,
    of_another_server,
    of_definitions,
)
from weir.apiserver.registry.write_request import WriteRequest
from weir.objects.kinds import SERVICES as SERVICE
from weir.objects.kinds import find as find_kind
from weir.objects.kinds import groups
from weir.objects.served_kinds import Registered, ServedKinds
from weir.store import Write

# ── A server keeps the APIServices of its groups and of its definitions, and says of other servers' what is wrong ──


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


async def test_requests_for_another_server_s_group_are_answered_here_and_sent_to_nobody(kept, monkeypatch):
    await create(kept, API_SERVICE, _remote("a.example.com"))
    spec = {"ports": [{"port": 443}], "clusterIP": "10.0.0.77"}
    await create(
        kept, SERVICE, {"metadata": {"name": "svc", "namespace": "default"}, "spec": spec}, "default"
    )
    connected: list[object] = []

    async def connect(*where: object, **how: object) -> None:
        connected.append(where)
        raise OSError

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", connect)
    for path in ("", "/namespaces/default/widgets", "/widgets/a/status"):
        for method in ("GET", "POST", "PATCH", "DELETE"):
            answer = await kept.call(method, f"/apis/a.example.com/v1{path}", "", {}, b"")
            assert (answer["code"], connected) == (503, []), answer


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


# ── claims about which APIServices there are, and about what is said of other servers' ──


SPEC = {"group": "a.com", "version": "v1", "service": {"namespace": "ns", "name": "svc", "port": 443}}
REMOTE = {"metadata": {"name": "v1.a.com"}, "spec": SPEC}
WEB_SERVICE = {
    "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"name": "web", "port": 443}]}
}
READY = {"endpoints": [{"conditions": {"ready": True}}], "ports": [{"name": "web", "port": 8443}]}


def test_every_group_of_the_table_but_the_registering_one_is_registered():
    registered = {
        (one["spec"].get("group", ""), one["spec"]["version"]) for one in at_start(groups()).values()
    }
    served = {(group, version) for group, versions in groups().items() for version in versions}
    assert served - registered == {("apiregistration.k8s.io", "v1")}


def test_groups_of_definitions_come_after_all_others():
    (found,) = of_definitions({"example.com": ["v1"]}).values()
    assert found["metadata"] == {
        "name": "v1.example.com",
        "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"},
    }
    assert found["spec"] == {
        "group": "example.com",
        "groupPriorityMinimum": 1000,
        "version": "v1",
        "versionPriority": 100,
    }


@pytest.mark.parametrize(
    "service, slices, reason, message",
    [
        (None, [], "ServiceNotFound", 'service/svc in "ns" is not present'),
        ({"spec": {"ports": []}}, [], "ServicePortError", 'service/svc in "ns" is not listening on port 443'),
        (WEB_SERVICE, [], "EndpointsNotFound", 'cannot find endpointslices for service/svc in "ns"'),
        (WEB_SERVICE, [{**READY, "ports": []}], "MissingEndpoints",
         'endpointslices for service/svc in "ns" have no addresses with port name "web"'),
        (WEB_SERVICE, [READY], "FailedDiscoveryCheck", "failing or missing response from "
         "https://10.0.0.9:443/apis/a.com/v1: this server forwards no requests to services"),
    ],
)  # fmt: skip
def test_another_server_s_group_is_judged_by_its_service(service, slices, reason, message):
    assert availability(REMOTE, service, slices) == ("False", reason, message)


def test_a_verdict_is_written_once_and_keeps_its_time():
    verdict = ("False", "ServiceNotFound", "gone")
    status = judged(REMOTE, verdict, "T1")
    assert status["conditions"][0]["lastTransitionTime"] == "T1"
    said = {**REMOTE, "status": status}
    assert judged(said, verdict, "T2") is None
    assert (
        judged(said, ("False", "MissingEndpoints", "x"), "T2")["conditions"][0]["lastTransitionTime"] == "T1"
    )


@pytest.fixture
def served():
    found = ServedKinds()
    found.register(
        {
            ("far.example.com", "v1"): Registered(100, 10, True),
            ("near.example.com", "v1"): Registered(100, 10, False),
        }
    )
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/apis/far.example.com/v1",
        "/apis/far.example.com/v1/",
        "/apis/far.example.com/v1/namespaces/default/things/a/status",
    ],
)
def test_everything_of_a_version_is_unavailable(served, path):
    answer = of_another_server(path, served)
    assert (answer.code, answer.body) == (503, b"service unavailable\n")
    assert (
        answer.content_type.startswith(b"text/plain")
        and (b"X-Content-Type-Options", b"nosniff") in answer.headers
    )


@pytest.mark.parametrize(
    "path",
    [
        *("/apis", "/apis/far.example.com", "/apis/far.example.com/v2", "/apis/far.example.com/v12/things"),
        *("/apis/near.example.com/v1/things", "/api/far.example.com/v1", "/", "/apis//far.example.com/v1"),
    ],
)
def test_everything_else_is_not_its_affair(served, path):
    assert of_another_server(path, served) is None


def test_what_is_registered_counts_as_a_change_only_when_it_is_one(served):
    before = served.version
    served.register(dict(served.registered))
    assert served.version == before
    served.register({})
    assert served.version == before + 1 and of_another_server("/apis/far.example.com/v1", served) is None
