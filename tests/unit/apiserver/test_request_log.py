"""Claims about weir.apiserver.request_log: the same refusal over and over is told of, and nothing secret is."""

import json
import logging

import pytest

from weir.apiserver.request_log import WINDOW_SECONDS, Labels, RequestLog, is_routed, labels_of
from weir.apiserver.transport import paths
from weir.apiserver.transport.http import Request, Response
from weir.apiserver.transport.options import parse_bool
from weir.errors import Forbidden, Invalid

pytestmark = pytest.mark.proves("5500-122")

WHY = "spec.tolerations[0].expression: Forbidden: may not be set"


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO - 10, "weir")
    return RequestLog()


def refuse(
    log, now, name="web-abc12", why=WHY, user="system:serviceaccount:kube-system:replicaset-controller"
):
    log.refused(Invalid(f'Pod "{name}" is invalid: {why}'), "create", "pods", "default", user, now)


def warnings(caplog):
    return [each.weir_fields["count"] for each in caplog.records if each.levelno == logging.WARNING]


def test_the_third_refusal_of_the_same_is_a_warning_and_then_each_doubling(log, caplog):
    for second in range(40):
        refuse(log, float(second), name=f"web-{second:05d}")
    assert warnings(caplog) == [3, 6, 12, 24]
    assert WHY in str(caplog.records[-1].weir_fields["err"])


def test_refusals_that_are_far_apart_are_none(log, caplog):
    for number in range(5):
        refuse(log, number * (WINDOW_SECONDS + 1))
    assert warnings(caplog) == []


def test_different_reasons_and_users_are_counted_apart(log, caplog):
    for number in range(8):
        refuse(log, 0.0, why=f"spec.x[{number}]: Required value")
        refuse(log, 0.0, user=f"user-{number}")
    assert warnings(caplog) == []


def test_other_errors_are_not_counted(log, caplog):
    for _ in range(10):
        log.refused(Forbidden("no"), "create", "pods", "default", "me", 0.0)
    assert caplog.records == []


def test_each_refusal_names_the_object_at_level_2(log, caplog):
    refuse(log, 0.0)
    (record,) = caplog.records
    assert record.levelno == logging.INFO - 2
    assert str(record.weir_fields["object"]) == "default/web-abc12" and record.weir_fields["err"] == WHY


def test_a_request_is_logged_without_what_it_proves_itself_with(log, caplog):
    body = json.dumps({"data": {"password": "c2VjcmV0"}}).encode()
    headers = {b"authorization": b"Bearer c2VjcmV0", b"user-agent": b"kubectl"}
    request = Request("POST", "/api/v1/namespaces/default/secrets", "", headers, body)
    log.answered(request, "create", Response(201, body, b"application/json"), 0.5, "me")
    (record,) = caplog.records
    assert "c2VjcmV0" not in str(record.weir_fields)
    assert (record.weir_fields["resp"], record.weir_fields["latencyMs"]) == (201, 500.0)


def test_bodies_are_shown_as_far_as_the_level_asks(caplog):
    request = Request("POST", "/api/v1/namespaces/default/pods", "", {}, b"x" * 20_000)
    shown = {}
    for level in (3, 7, 8, 9, 10):
        caplog.set_level(logging.INFO - level, "weir")
        caplog.clear()
        RequestLog().answered(request, "create", Response(201, b"", b"application/json"), 0.0, "me")
        shown[level] = len(caplog.records[0].weir_fields.get("requestBody", ""))
    assert shown == {3: 0, 7: 0, 8: 1024, 9: 10_240, 10: 20_000}


# ── claims about weir.apiserver.request_log: what is counted, and under which labels ──


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
