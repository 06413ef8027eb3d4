"""A real API server and weir's answer the same for groups of other servers that are not there, and list them alike."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.kubernetes.certificate_requests import SERVICES, api_service
from tests.kubernetes.custom_resource_requests import CRDS, STRING, crd, objects, version
from tests.kubernetes.more_requests import Questions
from tests.kubernetes.requests import MERGE, Asked, Document, document
from tests.kubernetes.test_same_custom_resources import wait_established
from tests.kubernetes.test_same_requests import CONNECTIONS, PATIENCE_SECONDS, both_servers, call, masked

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MISSING = {"namespace": "default", "name": "missing"}
REMOTE = {"insecureSkipTLSVerify": True, "service": MISSING}
API_SERVICES = [
    api_service("far.example.com", **REMOTE),
    api_service("far.example.com", "v2beta1", versionPriority=20, **REMOTE),
    api_service("far.example.com", "v1beta1", **REMOTE),
    api_service("near.example.com", groupPriorityMinimum=1500, **REMOTE),
    api_service(
        "low.example.com", groupPriorityMinimum=1, **{**REMOTE, "service": {**MISSING, "name": "portless"}}
    ),
    api_service("mixed.example.com", "v2", **{**REMOTE, "service": {**MISSING, "name": "empty"}}),
    api_service("nobody.example.com"),
]
#: of services that are there, but answer nothing
SERVICES_THERE = [
    document("Service", "portless", spec={"ports": [{"port": 80}]}),
    document("Service", "empty", spec={"ports": [{"port": 443}], "selector": {"no": "pod"}}),
]
MIXED = crd(
    "mixes",
    version(objects(a=STRING), "v1"),
    version(objects(a=STRING), "v3", storage=False),
    group="mixed.example.com",
)
OURS = ("far.", "near.", "low.", "mixed.", "nobody.")


def questions() -> list[Asked]:
    q = Questions("other servers")
    for one in API_SERVICES:
        q.ask(f"condition of {one['metadata']['name']}", "GET", f"{SERVICES}/{one['metadata']['name']}")
    for path in (
        *(
            "/apis/far.example.com",
            "/apis/far.example.com/",
            "/apis/far.example.com/v1",
            "/apis/far.example.com/v1/",
        ),
        *("/apis/far.example.com/v2beta1/things", "/apis/far.example.com/v1/namespaces/default/things/a/b"),
        *(
            "/apis/far.example.com/v3",
            "/apis/near.example.com",
            "/apis/nobody.example.com",
            "/apis/low.example.com/v1",
        ),
        *("/apis/nobody.example.com/v1", "/apis/nobody.example.com/v1/things", "/apis/mixed.example.com"),
        *("/apis/mixed.example.com/v1", "/apis/mixed.example.com/v2", "/apis/mixed.example.com/v3"),
        *(
            "/apis/mixed.example.com/v1/namespaces/default/mixes",
            "/apis/mixed.example.com/v2/namespaces/default/mixes",
        ),
    ):
        q.ask(path, "GET", path)
    q.ask("write", "POST", "/apis/far.example.com/v1/things", {"kind": "Thing"})
    q.ask("patch", "PATCH", "/apis/far.example.com/v1/things/a", {}, MERGE)
    q.ask("delete", "DELETE", "/apis/far.example.com/v1/things/a")
    q.ask("groups", "GET", "/apis")
    q.ask("all groups", "GET", "/apis", accept=AGGREGATED)
    q.ask("paths", "GET", "/")
    return list(q.asked)


CASES = {one.name: one for one in questions()}


def ours(body: Any) -> Any:
    """Return of an answer about everything what is about these groups."""
    if not isinstance(body, dict):
        return body
    if body.get("kind") == "APIGroupList":
        return [one for one in body["groups"] if one["name"].startswith(OURS)]
    if body.get("kind") == "APIGroupDiscoveryList":
        return [one for one in body["items"] if one["metadata"].get("name", "").startswith(OURS)]
    if "paths" in body:
        return [one for one in body["paths"] if one.removeprefix("/apis/").startswith(OURS)]
    return without_times(body)


def without_times(body: Document) -> Document:
    body["metadata"] = {
        key: value for key, value in (body.get("metadata") or {}).items() if key != "managedFields"
    }
    return body


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, list[Any]]:
    """What both servers say, once they know every service."""
    found: dict[str, list[Any]] = {name: [] for name in CASES}
    with both_servers(tmp_path_factory.mktemp("services")) as servers:
        for server in servers:
            for path, bodies in (
                (CRDS, [MIXED]),
                ("/api/v1/namespaces/default/services", SERVICES_THERE),
                (SERVICES, API_SERVICES),
            ):
                for body in bodies:
                    code, said, _ = call(server, Asked("", "POST", path, body))
                    assert code == 201, said
            wait_established(server, MIXED["metadata"]["name"])
            settle(server)
            for name, asked in CASES.items():
                code, body, *rest = call(server, asked)
                found[name].append(masked([code, ours(body), *rest]))
            CONNECTIONS.pop(server).close()
    return found


def settle(server: str) -> None:
    """Wait until discovery shows every version, and every condition is known."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        shown = ours(call(server, Asked("", "GET", "/apis", accept=AGGREGATED))[1])
        versions = sum(len(one["versions"]) for one in shown)
        judged = [
            call(server, Asked("", "GET", f"{SERVICES}/{one['metadata']['name']}"))[1] for one in API_SERVICES
        ]
        if versions >= 8 and all((one.get("status") or {}).get("conditions") for one in judged):
            return
        assert time.monotonic() < deadline, (shown, judged)
        time.sleep(0.2)


@pytest.mark.parametrize("name", list(CASES))
def test_both_servers_answer_the_same(answers, name):
    real, weir = answers[name]
    assert weir == real
