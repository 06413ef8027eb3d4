"""Claims about which APIServices there are, and about what is said of other servers'."""

import pytest

from weir.apiserver.aggregation.objects import (
    at_start,
    availability,
    judged,
    of_another_server,
    of_definitions,
)
from weir.objects.kinds import groups
from weir.objects.served_kinds import Registered, ServedKinds

SPEC = {"group": "a.com", "version": "v1", "service": {"namespace": "ns", "name": "svc", "port": 443}}
REMOTE = {"metadata": {"name": "v1.a.com"}, "spec": SPEC}
SERVICE = {"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"name": "web", "port": 443}]}}
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
        (SERVICE, [], "EndpointsNotFound", 'cannot find endpointslices for service/svc in "ns"'),
        (SERVICE, [{**READY, "ports": []}], "MissingEndpoints",
         'endpointslices for service/svc in "ns" have no addresses with port name "web"'),
        (SERVICE, [READY], "FailedDiscoveryCheck", "failing or missing response from "
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
