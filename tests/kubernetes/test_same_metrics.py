"""A real API server and weir's count the same requests under the same labels."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
import urllib.parse
from collections import Counter
from typing import Any, NamedTuple

import pytest

from tests.kubernetes.test_same_requests import TOKEN, both_servers

SECRETS, PODS = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/pods"
THINGS = "/apis/example.com/v1/namespaces/default/things"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE, APPLY, UNKNOWN = "application/merge-patch+json", "application/apply-patch+yaml", "application/x"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
THING = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
       "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"}}  # fmt: skip
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced",
             "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {
                 "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]},
}  # fmt: skip
#: of which a real server asks itself nothing, as it does of config maps; "" are pages
COMPARED = frozenset({"secrets", "pods", "nodes", "things", "deployments", "selfsubjectaccessreviews", ""})
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Case(NamedTuple):
    """One request."""

    method: str
    path: str
    body: Any = None
    content: str = "application/json"
    accept: str = "*/*"
    token: str = TOKEN

    @property
    def name(self) -> str:
        kinds = "" if self.accept == "*/*" else self.accept
        return f"{self.method} {self.path} {self.content} {kinds} {'' if self.token == TOKEN else 'stranger'}".strip()


CASES = (
    Case("POST", SECRETS, SECRET), Case("POST", f"{SECRETS}?fieldValidation=Strict", SECRET),
    Case("POST", f"{SECRETS}?dryRun=All", {"metadata": {"name": "b"}}),
    Case("POST", f"{SECRETS}?dryRun=Some", {"metadata": {"name": "b"}}),
    Case("GET", f"{SECRETS}/a"), Case("GET", f"{SECRETS}/none"), Case("GET", SECRETS), Case("GET", "/api/v1/secrets"),
    Case("GET", f"{SECRETS}?watch=1&timeoutSeconds=1"), Case("GET", f"{SECRETS}?watch=false"),
    Case("GET", f"{SECRETS}/a?watch=true"), Case("GET", "/api/v1/watch/namespaces/default/secrets?timeoutSeconds=1"),
    Case("GET", f"{SECRETS}?fieldSelector=metadata.name%3Da"), Case("GET", f"{SECRETS}?limit=x"),
    Case("GET", f"{SECRETS}?dryRun=foo"), Case("GET", f"{SECRETS}?dryRun=All"),
    Case("PUT", f"{SECRETS}/a", SECRET), Case("PATCH", f"{SECRETS}/a", {}, MERGE),
    Case("PATCH", f"{SECRETS}/a", SECRET, APPLY), Case("PATCH", f"{SECRETS}/a?fieldManager=me", SECRET, APPLY),
    Case("PATCH", f"{SECRETS}/a?fieldManager=me&dryRun=All&force=true", SECRET, APPLY),
    Case("PATCH", f"{SECRETS}/a", {}, UNKNOWN), Case("POST", SECRETS, SECRET, UNKNOWN),
    Case("PUT", f"{SECRETS}/a", SECRET, UNKNOWN),
    Case("GET", SECRETS, accept=UNKNOWN), Case("POST", SECRETS, SECRET, accept=UNKNOWN),
    Case("POST", SECRETS, "x" * 3_200_000),
    Case("HEAD", f"{SECRETS}/a"), Case("OPTIONS", SECRETS), Case("POST", f"{SECRETS}/a", SECRET),
    Case("DELETE", f"{SECRETS}/a?dryRun=foo"), Case("DELETE", f"{SECRETS}/a?dryRun=All&dryRun=All"),
    Case("DELETE", f"{SECRETS}/a"), Case("DELETE", f"{SECRETS}/a?gracePeriodSeconds=0"), Case("DELETE", SECRETS),
    Case("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}),
    Case("GET", "/api/v1/nodes/n1"), Case("GET", "/api/v1/nodes"),
    Case("GET", "/api/v1/nodes?watch=true&timeoutSeconds=1"), Case("GET", "/api/v1/watch/nodes/n1?timeoutSeconds=1"),
    Case("PATCH", "/api/v1/nodes/n1/status", {}, MERGE), Case("DELETE", "/api/v1/nodes?labelSelector=a%3Db"),
    Case("POST", PODS, POD), Case("POST", f"{PODS}/p/binding", {"target": {"name": "n1"}}),
    Case("GET", f"{PODS}/p/status"), Case("GET", f"{PODS}/p/ephemeralcontainers"),
    Case("PATCH", f"{PODS}/p/resize", {}, MERGE), Case("GET", f"{PODS}/p/nothing"), Case("PUT", f"{PODS}/p/log", {}),
    Case("GET", f"{PODS}/p/binding"), Case("DELETE", f"{PODS}/p/status"),
    Case("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}),
    Case("GET", "/api/v1/namespaces/default/nothings"), Case("GET", "/apis/none.example/v1/things"),
    Case("GET", "/apis/apps/v9/deployments"), Case("GET", "/apis/apps/v1/namespaces/default/deployments/x/scale"),
    Case("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    Case("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
         {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
    *(Case("GET", path) for path in ("/healthz", "/healthz/ping", "/livez?verbose", "/readyz", "/api", "/apis",
                                     "/api/v1", "/apis/apps", "/openapi/v2", "/version", "/nothing", "/")),
    Case("GET", SECRETS, token="nobody's"),
    Case("POST", DEFINITIONS, DEFINITION),
    Case("GET", THINGS), Case("POST", THINGS, THING), Case("POST", f"{THINGS}?dryRun=All", THING),
    Case("POST", f"{THINGS}/a", THING), Case("PUT", THINGS, THING), Case("OPTIONS", THINGS),
    Case("POST", "/apis/example.com/v1/things", THING), Case("HEAD", THINGS), Case("DELETE", f"{THINGS}/a/status"),
    Case("GET", f"{THINGS}/a"), Case("GET", f"{THINGS}/none"), Case("PATCH", f"{THINGS}/a", {}, UNKNOWN),
    Case("PATCH", f"{THINGS}/a?fieldManager=x", THING, APPLY), Case("POST", THINGS, THING, UNKNOWN),
    Case("GET", f"{THINGS}?limit=1", accept=UNKNOWN),
    Case("GET", f"{THINGS}/a/scale"), Case("GET", f"{THINGS}/a/status"),
    Case("GET", "/apis/example.com/v1/things"), Case("GET", f"{THINGS}?watch=1&timeoutSeconds=1"),
    Case("DELETE", f"{THINGS}/a"), Case("DELETE", THINGS), Case("GET", "/apis/example.com/v2/things"),
)  # fmt: skip


def ask(server: str, case: Case) -> tuple[int, bytes]:
    address = urllib.parse.urlsplit(server).netloc
    connection = http.client.HTTPSConnection(address, context=ssl._create_unverified_context(), timeout=30)
    headers = {"Content-Type": case.content, "Accept": case.accept, "Authorization": f"Bearer {case.token}"}
    body = case.body if case.body is None or isinstance(case.body, str) else json.dumps(case.body)
    connection.request(case.method, case.path, body, headers)
    answer = connection.getresponse()
    code, text = answer.status, answer.read()
    connection.close()
    return code, text


def counted(server: str) -> Counter[tuple[tuple[str, str], ...]]:
    """Return how often each set of labels was counted so far, but for what a real server asks itself."""
    _, page = ask(server, Case("GET", "/metrics"))
    found: Counter[tuple[tuple[str, str], ...]] = Counter()
    for line in page.decode().splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(LABEL.findall(line))
            if labels["resource"] in COMPARED and labels["subresource"] != "openapi/v3":
                found[tuple(sorted(labels.items()))] = int(line.rpartition(" ")[2])
    return found


def counted_in_the_end(server: str) -> Counter[tuple[tuple[str, str], ...]]:
    """Return what was counted once no more comes: a real server counts a request after its answer was sent."""
    found, equal = counted(server), 0
    while equal < 2:
        time.sleep(0.03)
        before, found = found, counted(server)
        equal = equal + 1 if found == before else 0
    return found


def what_was_counted(server: str) -> dict[int, tuple[int, Counter[tuple[tuple[str, str], ...]]]]:
    """Return of every case the answer's code and the labels the request was counted under."""
    found: dict[int, tuple[int, Counter[tuple[tuple[str, str], ...]]]] = {}
    before = counted_in_the_end(server)
    for case in CASES:
        code, _ = ask(server, case)
        after = counted_in_the_end(server)
        found[id(case)] = code, after - before
        if case.path == DEFINITIONS:
            _wait_for(server, Case("GET", THINGS))
            after = counted_in_the_end(server)
        before = after
    return found


def _wait_for(server: str, case: Case) -> None:
    deadline = time.monotonic() + 60
    while ask(server, case)[0] != 200:
        assert time.monotonic() < deadline, f"{case.path} is not served"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[dict[int, Any]]:
    with both_servers(tmp_path_factory.mktemp("metrics")) as servers:
        return [what_was_counted(server) for server in servers]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_count_the_same(found, case):
    real, weir = found
    assert weir[id(case)] == real[id(case)]
