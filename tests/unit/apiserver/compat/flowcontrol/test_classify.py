"""Which flow schema and which flow a request belongs to (a real server: tests/kubernetes/test_flow_control.py)."""

from __future__ import annotations

from typing import Any

import pytest

from weir.apiserver.auth.authn import User, proven
from weir.apiserver.compat.flowcontrol.bootstrap import new_object
from weir.apiserver.compat.flowcontrol.classify import Configuration
from weir.apiserver.transport.paths import parse
from weir.objects.flow_control import rows

OWN = Configuration(
    [new_object(row) for row in rows() if row.kind == "FlowSchema"],
    [new_object(row) for row in rows() if row.kind != "FlowSchema"],
)
JANE = proven("jane", ["dev"])
MASTER = proven("admin", ["system:masters"])
NODE = proven("system:node:n1", ["system:nodes"])
SCHEDULER = proven("system:kube-scheduler")
GC = proven("system:serviceaccount:kube-system:gc", ["system:serviceaccounts"])
ACCOUNT = proven("system:serviceaccount:kube-system-2:gc", ["system:serviceaccounts"])
NOBODY = User("system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.parametrize(
    ("user", "method", "path", "schema"),
    [
        (MASTER, "GET", "/api/v1/pods", "exempt"),
        (MASTER, "GET", "/metrics", "exempt"),
        (JANE, "GET", "/healthz", "probes"),
        (JANE, "GET", "/healthz/ping", "probes"),
        (JANE, "POST", "/healthz", "global-default"),
        (JANE, "GET", "/metrics", "global-default"),
        (NOBODY, "GET", "/livez", "probes"),
        (NOBODY, "GET", "/api/v1/pods", "global-default"),
        (JANE, "GET", "/api/v1/namespaces/a/pods/b", "global-default"),
        (NODE, "PATCH", "/api/v1/nodes/n1/status", "system-node-high"),
        (NODE, "GET", "/api/v1/pods", "system-nodes"),
        (
            NODE,
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
            "system-node-high",
        ),
        (
            SCHEDULER,
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/s",
            "system-leader-election",
        ),
        (SCHEDULER, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "kube-scheduler"),
        (SCHEDULER, "GET", "/apis/coordination.k8s.io/v1/leases", "kube-scheduler"),
        (SCHEDULER, "POST", "/api/v1/namespaces/a/pods/b/binding", "kube-scheduler"),
        (GC, "DELETE", "/api/v1/namespaces/a/pods/b", "kube-system-service-accounts"),
        (GC, "GET", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "system-leader-election"),
        (ACCOUNT, "DELETE", "/api/v1/namespaces/a/pods/b", "service-accounts"),
        (User("odd"), "GET", "/api/v1/pods", "catch-all"),
    ],
)
def test_kubernetes_own_schemas(user, method, path, schema):
    assert OWN.classify(user, parse(method, path)).name == schema


def schema(name: str, precedence: int = 500, level: str = "exempt", **rest: Any) -> dict[str, Any]:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    rule = {
        "subjects": rest.pop("subjects", [{"kind": "User", "user": {"name": "*"}}]),
        "resourceRules": [{**everything, **rest.pop("resources", {})}],
        "nonResourceRules": rest.pop("urls", []),
    }
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rule],
        **rest,
    }
    return {"metadata": {"name": name}, "spec": spec}


def first(*schemas: dict[str, Any], path: str = "/api/v1/namespaces/a/pods", user: User = JANE) -> str:
    return Configuration(schemas).classify(user, parse("GET", path)).name


def test_the_lowest_precedence_is_first_then_the_name():
    assert first(schema("b"), schema("a"), schema("z", 499)) == "z"
    assert first(schema("b"), schema("a")) == "a"


def test_a_schema_whose_level_is_not_there_takes_no_part():
    assert first(schema("a", level="gone"), schema("b", 600)) == "b"
    assert first(schema("a", level="gone")) == "catch-all"


def test_namespaces_and_the_whole_cluster():
    in_a, wide = (
        schema("in-a", resources={"namespaces": ["a"]}),
        schema("wide", 600, resources={"clusterScope": True}),
    )
    assert first(in_a, wide) == "in-a"
    assert first(in_a, wide, path="/api/v1/namespaces/b/pods") == "wide"
    assert first(in_a, wide, path="/api/v1/pods") == "wide"
    assert first(in_a, path="/api/v1/pods") == "catch-all"


def test_a_subresource_is_named_for_itself():
    pods = schema("pods", resources={"resources": ["pods"]})
    assert first(pods, path="/api/v1/namespaces/a/pods/b") == "pods"
    assert first(pods, path="/api/v1/namespaces/a/pods/b/status") == "catch-all"
    status = schema("status", resources={"resources": ["pods/status"]})
    assert first(status, path="/api/v1/namespaces/a/pods/b/status") == "status"


def test_subjects():
    for subject, user, found in [
        ({"kind": "Group", "group": {"name": "dev"}}, JANE, True),
        ({"kind": "Group", "group": {"name": "*"}}, User("odd"), True),
        ({"kind": "Group", "group": {"name": "ops"}}, JANE, False),
        ({"kind": "User", "user": {"name": "jane"}}, JANE, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "gc"}}, GC, True),
        (
            {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}},
            ACCOUNT,
            False,
        ),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube", "name": "*"}}, GC, False),
    ]:
        assert (first(schema("s", subjects=[subject]), user=user) == "s") is found, subject


def test_urls():
    logs = schema("logs", urls=[{"verbs": ["get"], "nonResourceURLs": ["/logs/*", "/exact"]}])
    for path, found in [
        ("/logs", False),
        ("/logs/a/b", True),
        ("/exact", True),
        ("/exact/b", True),
        ("/exactly", False),
    ]:
        assert (first(logs, path=path) == "logs") is found, path


def test_whom_a_schema_distinguishes():
    info = parse("GET", "/api/v1/namespaces/a/pods")
    for method, expected in [(None, ""), ({"type": "ByUser"}, "jane"), ({"type": "ByNamespace"}, "a")]:
        found = Configuration([schema("s", distinguisherMethod=method)]).classify(JANE, info)
        assert found.distinguish(JANE, info) == expected
