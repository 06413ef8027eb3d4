"""Claims about weir.apiserver.request_labels: what is counted, and under which labels."""

import pytest

from weir.apiserver.request_labels import Labels, is_routed, labels_of
from weir.apiserver.transport import paths
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.options import parse_bool

PODS = "/api/v1/namespaces/default/pods"
APPLY = "application/apply-patch+yaml"


def labels(method: str, path: str, query: str = "", content: str = "application/json") -> Labels | None:
    request = Request(method, path, query, {b"content-type": content.encode()}, b"")
    info = paths.parse(method, path, parse_bool(request.params.get("watch")))
    return labels_of(request, info, request.params)


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "subresource", "scope"),
    [
        ("POST", PODS, "", "POST", "", "resource"),
        ("POST", f"{PODS}/p/binding", "", "POST", "binding", "resource"),
        ("PUT", f"{PODS}/p", "", "PUT", "", "resource"),
        ("GET", f"{PODS}/p", "", "GET", "", "resource"),
        ("GET", PODS, "", "LIST", "", "namespace"),
        ("GET", PODS, "watch=0", "LIST", "", "namespace"),
        ("GET", PODS, "watch=1", "WATCH", "", "namespace"),
        ("GET", f"{PODS}/p", "watch=1", "WATCH", "", "resource"),
        ("GET", f"{PODS}/p", "watch=False", "GET", "", "resource"),
        ("GET", "/api/v1/pods", "", "LIST", "", "cluster"),
        ("GET", "/api/v1/watch/pods", "", "WATCH", "", "cluster"),
        ("DELETE", f"{PODS}/p", "", "DELETE", "", "resource"),
        ("DELETE", PODS, "", "DELETE", "", "namespace"),
        ("PATCH", f"{PODS}/p/status", "", "PATCH", "status", "resource"),
        ("GET", f"{PODS}/p/log", "", "CONNECT", "log", "resource"),
        ("POST", f"{PODS}/p/exec", "", "CONNECT", "exec", "resource"),
        ("OPTIONS", PODS, "", "other", "", "namespace"),
    ],
)
def test_a_request_of_a_kind(method, path, query, verb, subresource, scope):
    assert labels(method, path, query) == Labels(verb, "", "v1", "pods", subresource, scope, "apiserver")


def test_apply_is_a_verb_of_its_own():
    assert labels("PATCH", f"{PODS}/p", content=APPLY).verb == "APPLY"
    assert labels("PATCH", f"{PODS}/p", content="application/merge-patch+json").verb == "PATCH"


@pytest.mark.parametrize(
    ("path", "subresource"),
    [
        ("/healthz", "/healthz"),
        ("/livez", "/livez"),
        ("/readyz", "/readyz"),
        ("/openapi/v3", "openapi/v3"),
        ("/openapi/v3/apis/apps/v1", "openapi/v3/"),
    ],
)
def test_pages_that_are_counted(path, subresource):
    assert labels("GET", path) == Labels("GET", "", "", "", subresource, "", "")


@pytest.mark.parametrize(
    "path",
    [
        f"{PODS}/p/nothing", "/api/v1/namespaces/default/nothings", "/apis/none.example/v1/things", "/nothing",
        "/apis/apps/v1/namespaces/default/deployments/d/log", "/healthz/ping", "/openapi/v2", "/api", "/apis/apps/v1",
        "/metrics", "/version", "/",
    ],
)  # fmt: skip
def test_what_nobody_serves_and_other_pages_are_not_counted(path):
    assert labels("GET", path) is None


@pytest.mark.parametrize(
    ("method", "code", "routed"),
    [
        ("GET", 200, True), ("GET", 404, True), ("POST", 415, True), ("PATCH", 415, False), ("GET", 406, False),
        ("POST", 405, False), ("POST", 429, True),
    ],
)  # fmt: skip
def test_a_route_takes_methods_and_forms(method, code, routed):
    path = f"{PODS}/p" if method == "PATCH" else PODS
    assert is_routed(paths.parse(method, path), code) is routed
