"""No request makes the server fail: whatever is sent, the answer is never a 5xx the API does not define.

Rule (issue "The API server"): a run over the served OpenAPI finds no 5xx. Paths come from the served document; bodies,
patches, queries and headers are random, from nonsense to nearly right objects.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import tries
from tests.golden.cluster import GATES_ON, Cluster
from weir.apiserver.openapi import documents

#: answers above 499 that the API defines: upstream returns these errors without a Status of their own
DEFINED = (
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint: parsing",
    "resourceVersion: Invalid value",
    "target.name: Required value",
    "target.kind: Unsupported value",
    "does not contain declared merge key",
    "unknown patch type",
    "not supported by simulated nodes",
    "Too large resource version",
    "field not declared in schema",
    "failed to create typed patch object",
)
NAMES = st.sampled_from(
    ["golden", "golden", "web", "web", "default", "x", "kube-system", "UPPER", "a.b", "%2F", "é"]
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=8)
)
FIELDS = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "uid",
        "resourceVersion",
        "spec",
        "status",
        "containers",
        "image",
        "tolerations",
        "key",
        "operator",
        "value",
        "effect",
        "tolerationSeconds",
        "nodeName",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
        "matchExpressions",
        "values",
        "taints",
        "selector",
        "matchLabels",
        "template",
        "replicas",
        "data",
        "stringData",
        "ports",
        "port",
        "conditions",
        "type",
        "target",
        "minAvailable",
        "rules",
        "subjects",
        "roleRef",
        "webhooks",
        "resources",
        "requests",
        "limits",
        "cpu",
        "volumes",
        "hostPath",
        "capacity",
        "accessModes",
        "$patch",
        "op",
        "path",
        "managedFields",
        "fieldsV1",
        "f:spec",
        "deleteOptions",
        "gracePeriodSeconds",
        "audiences",
        "expirationSeconds",
        "token",
        "user",
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(FIELDS, st.text(max_size=4)), inner, max_size=4),
    ),
    max_leaves=12,
)
TYPES = st.sampled_from(
    [
        "application/json",
        "application/yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
    ]
)
PATCH_TYPES = st.sampled_from(
    [
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/json-patch+json",
    ]
)
QUERIES = st.dictionaries(
    st.sampled_from(
        [
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "force",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "labelSelector",
            "fieldSelector",
            "propagationPolicy",
            "gracePeriodSeconds",
            "orphanDependents",
            "pretty",
            "includeObject",
            "timeoutSeconds",
        ]
    ),
    st.one_of(
        st.sampled_from(["All", "m", "Strict", "true", "1", "-1", "0", "abc", "a=b", "metadata.name=x"]),
        st.text(max_size=5),
    ),
    max_size=3,
)


@cache
def operations() -> list[tuple[str, str]]:
    """Every method and path template of the served document."""
    paths = json.loads(documents.v2())["paths"]
    methods = ("get", "post", "put", "patch", "delete")
    return [(method.upper(), path) for path, found in paths.items() for method in methods if method in found]


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, str], dict[str, str], bytes]:
    method, path = draw(st.sampled_from(operations()))
    while "{" in path:
        head, _, rest = path.partition("{")
        path = head + draw(NAMES) + rest.partition("}")[2]
    likely = PATCH_TYPES if method == "PATCH" else st.just("application/json")
    media = draw(st.one_of(likely, likely, likely, TYPES))
    random_json = values.map(lambda v: json.dumps(v).encode())
    body = draw(st.one_of(_near(path), _near(path), random_json, st.binary(max_size=30)))
    if media == "application/vnd.kubernetes.protobuf" and draw(st.booleans()):
        body = b"k8s\0" + body
    accept = draw(
        st.sampled_from(
            ["", "*/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", "image/png"]
        )
    )
    return method, path, draw(QUERIES), {"Content-Type": media, "Accept": accept}, body


def _near(path: str) -> st.SearchStrategy[bytes]:
    """Objects of the right kind with random insides."""
    parts = [part for part in path.split("/") if part]
    version = "/".join(parts[1:3]) if parts[:1] == ["apis"] else "v1"
    return st.builds(
        lambda name, spec, extra: json.dumps(
            {"apiVersion": version, "metadata": {"name": name}, "spec": spec, **extra}
        ).encode(),
        NAMES,
        values,
        st.dictionaries(FIELDS, values, max_size=2),
    )


_POD = {"containers": [{"name": "c", "image": "i"}]}
_TEMPLATE = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": _POD},
}
EXISTING: list[tuple[str, str, dict[str, Any]]] = [
    ("Pod", "/api/v1/namespaces/golden/pods", {"spec": _POD}),
    ("Node", "/api/v1/nodes", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    ("ConfigMap", "/api/v1/namespaces/golden/configmaps", {"data": {"a": "b"}}),
    ("Secret", "/api/v1/namespaces/golden/secrets", {"data": {"a": "Yg=="}}),
    ("Service", "/api/v1/namespaces/golden/services", {"spec": {"ports": [{"port": 80}]}}),
    ("Deployment", "/apis/apps/v1/namespaces/golden/deployments", {"spec": _TEMPLATE}),
    ("DaemonSet", "/apis/apps/v1/namespaces/golden/daemonsets", {"spec": _TEMPLATE}),
    (
        "Job",
        "/apis/batch/v1/namespaces/golden/jobs",
        {"spec": {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}},
    ),
    ("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses", {"value": 5}),
]


@pytest.fixture(scope="module")
def server() -> Any:
    loop = asyncio.new_event_loop()
    cluster = Cluster(GATES_ON)
    loop.run_until_complete(cluster.start())
    for kind, path, document in EXISTING:
        whole = {"metadata": {"name": "web"}, **document}
        made = loop.run_until_complete(
            cluster.call("POST", path, "", {"Content-Type": "application/json"}, json.dumps(whole).encode())
        )
        assert made["code"] == 201, (kind, made["body"])
    yield loop, cluster
    loop.close()


@settings(
    max_examples=tries(50, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sent=requests())
def test_no_request_makes_the_server_fail(server: Any, sent: Any) -> None:
    from urllib.parse import urlencode

    loop, cluster = server
    method, path, query, headers, body = sent
    answer = loop.run_until_complete(cluster.call(method, path, urlencode(query), headers, body))
    shown = json.dumps(answer.get("body", ""))
    assert answer["code"] < 500 or any(text in shown for text in DEFINED), (answer["code"], shown)
