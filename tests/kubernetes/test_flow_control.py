"""A real API server and weir's put requests into the same flows, with the same seats and the same metrics."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.server import running_server
from tests.kubernetes.flowcontrol_requests import EVERYTHING, LEVELS, SCHEMAS, level, limited, schema
from tests.kubernetes.real_server import real_server

USERS = {
    "admin-token": ("admin", "system:masters"),
    "jane-token": ("jane", "dev"),
    "ops-token": ("otto", "ops"),
    "node-token": ("system:node:n1", "system:nodes"),
    "scheduler-token": ("system:kube-scheduler", ""),
    "kcm-token": ("system:kube-controller-manager", ""),
    "gc-token": ("system:serviceaccount:kube-system:gc", "system:serviceaccounts"),
    "app-token": ("system:serviceaccount:default:app", "system:serviceaccounts"),
    "full-token": ("full", "full"),
}
#: schemas that are there beside a new cluster's own
OWN = [
    schema("dev-a", priorityLevelConfiguration={"name": "system"}, matchingPrecedence=700, rules=[{
        "subjects": [{"kind": "Group", "group": {"name": "dev"}}],
        "resourceRules": [{**EVERYTHING, "clusterScope": False, "namespaces": ["a"], "resources": ["pods"]}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/version", "/openapi/*"]}],
    }]),
    schema("dangles", matchingPrecedence=2, rules=[{
        "subjects": [{"kind": "User", "user": {"name": "*"}}], "resourceRules": [EVERYTHING],
    }]),
    schema("z-ops", priorityLevelConfiguration={"name": "workload-high"}, matchingPrecedence=650, rules=[{
        "subjects": [{"kind": "User", "user": {"name": "otto"}}], "resourceRules": [{**EVERYTHING, "verbs": ["list"]}],
    }]),
    schema("a-ops", priorityLevelConfiguration={"name": "workload-low"}, matchingPrecedence=650, rules=[{
        "subjects": [{"kind": "Group", "group": {"name": "ops"}}],
        "resourceRules": [{**EVERYTHING, "verbs": ["list"], "namespaces": [], "apiGroups": ["apps"]}],
    }]),
]  # fmt: skip
PATHS = [
    ("GET", "/api/v1/pods"),
    ("GET", "/api/v1/namespaces/a/pods"),
    ("GET", "/api/v1/namespaces/a/pods/x"),
    ("DELETE", "/api/v1/namespaces/b/pods/x"),
    ("PUT", "/api/v1/namespaces/a/pods/x/status"),
    ("GET", "/api/v1/namespaces/a/pods/x/log"),
    ("GET", "/api/v1/namespaces/a"),
    ("GET", "/apis/apps/v1/deployments"),
    ("GET", "/apis/apps/v1/namespaces/a/deployments"),
    ("GET", "/api/v1/nodes/n1"),
    ("PATCH", "/api/v1/nodes/n1/status"),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
    ("GET", "/healthz"),
    ("GET", "/readyz/ping"),
    ("GET", "/version"),
    ("GET", "/openapi/v3"),
    ("GET", "/openapi"),
    ("GET", "/metrics"),
    ("GET", "/nothing"),
    ("GET", "/api/v1/nothing"),
]
EVENT_LIMITS = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits:
    - {type: Server, qps: 1000, burst: 2000}
    - {type: Namespace, qps: 1, burst: 4, cacheSize: 100}
    - {type: User, qps: 1, burst: 6}
    - {type: SourceAndObject, qps: 1, burst: 2}
"""
EVENT = {
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u1", "apiVersion": "v1"},
    "source": {"component": "c", "host": "h"}, "reason": "R", "message": "m", "type": "Normal",
}  # fmt: skip
Answer = tuple[int, http.client.HTTPMessage, bytes]


class Door:
    """One server, and what its flow schemas and levels are called."""

    def __init__(self, server: str) -> None:
        self._address = urllib.parse.urlsplit(server).netloc

    def ask(self, token: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPSConnection(
            self._address, context=ssl._create_unverified_context(), timeout=30
        )
        data = None if body is None else json.dumps(body).encode()
        auth = {"Authorization": f"Bearer {token}"} if token else {}
        content = (
            {"Content-Type": "application/json"}
            if method != "PATCH"
            else {"Content-Type": "application/merge-patch+json"}
        )
        connection.request(method, path, data, {**auth, **content, **headers})
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def names(self) -> dict[str, str]:
        """Return the names of schemas and levels by uid."""
        found = {}
        for path in (SCHEMAS, LEVELS):
            for item in json.loads(self.ask("admin-token", "GET", path)[2])["items"]:
                found[item["metadata"]["uid"]] = item["metadata"]["name"]
        return found

    def flow(self, answer: Answer) -> tuple[str, str]:
        """Return the names of the schema and the level that an answer's headers tell."""
        names, headers = self.names(), answer[1]
        kinds = ("FlowSchema", "PriorityLevel")
        return tuple(names.get(headers.get(f"X-Kubernetes-PF-{kind}-UID", ""), "") for kind in kinds)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def doors(tmp_path_factory) -> Iterator[tuple[Door, Door]]:
    folder = tmp_path_factory.mktemp("flows")
    lines = [f'{token},{name},{name},"{groups}"' for token, (name, groups) in USERS.items()]
    (folder / "admission.yaml").write_text(EVENT_LIMITS)
    limits = [
        "--enable-admission-plugins=EventRateLimit",
        f"--admission-control-config-file={folder / 'admission.yaml'}",
    ]
    with (
        real_server(folder, "--anonymous-auth=true", *limits, users=lines[1:]) as real,
        running_server(
            folder, "--store", "memory", "--token-auth-file", str(folder / "tokens.csv"), "--anonymous-auth", *limits,
        ) as weir,
    ):  # fmt: skip
        servers = [
            yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]
            for path in (real, weir.kubeconfig)
        ]
        both = Door(servers[0]), Door(servers[1])
        for door in both:
            for found in OWN:
                code, _, text = door.ask("admin-token", "POST", SCHEMAS, found)
                assert code == 201, text
            zero = limited({"type": "Reject"}, nominalConcurrencyShares=0, borrowingLimitPercent=0)
            assert door.ask("admin-token", "POST", LEVELS, level("zero", **zero))[0] == 201
        yield both


def test_requests_are_put_into_the_same_flows(doors):
    differ = []
    for token in (*USERS, ""):
        for method, path in PATHS:
            body = {} if method in ("PUT", "PATCH") else None
            real, weir = (door.flow(door.ask(token, method, path, body)) for door in doors)
            if real != weir:
                differ.append((USERS.get(token), method, path, real, weir))
    assert differ == []


def test_whoever_speaks_for_another_is_in_the_others_flow(doors):
    for headers in ({"Impersonate-User": "jane", "Impersonate-Group": "dev"}, {"Impersonate-User": "otto"}):
        real, weir = (
            door.flow(door.ask("admin-token", "GET", "/api/v1/namespaces/a/pods", **headers))
            for door in doors
        )
        assert weir == real
    assert weir[0] == "z-ops"


def test_the_same_schemas_dangle(doors):
    def shown(door: Door) -> dict[str, Any]:
        items = json.loads(door.ask("admin-token", "GET", SCHEMAS)[2])["items"]
        return {
            item["metadata"]["name"]: [
                {name: value for name, value in condition.items() if name != "lastTransitionTime"}
                for condition in item["status"]["conditions"]
            ]
            for item in items
        }

    real, weir = map(shown, doors)
    assert weir == real and weir["dangles"][0]["status"] == "True"


def metrics(door: Door) -> dict[str, set[tuple[str, ...]]]:
    """Return the names of flow control's metrics with the names of their labels."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in door.ask("admin-token", "GET", "/metrics")[2].decode().splitlines():
        if line.startswith("apiserver_flowcontrol_"):
            name, _, labels = line.partition("{")
            names = tuple(sorted(part.partition("=")[0] for part in labels.partition("}")[0].split(",")))
            found.setdefault(name, set()).add(names)
    return found


def test_what_is_counted_has_upstreams_names_and_labels(doors):
    real, weir = map(metrics, doors)
    assert len(weir) >= 15
    assert {name: labels for name, labels in weir.items() if real.get(name) != labels} == {}


def test_the_same_seats(doors):
    def seats(door: Door) -> dict[str, str]:
        text = door.ask("admin-token", "GET", "/metrics")[2].decode()
        return dict(
            line.rsplit(" ", 1)
            for line in text.splitlines()
            if line.startswith("apiserver_flowcontrol_")
            and line.partition("{")[0].endswith(
                ("nominal_limit_seats", "lower_limit_seats", "upper_limit_seats")
            )
        )

    real, weir = map(seats, doors)
    assert weir == real and len(real) == 27


def test_events_are_limited_in_the_same_words(doors):
    said = []
    for door in doors:
        found = {}
        for number in range(40):
            body = {"metadata": {"name": f"e{number}"}, **EVENT}
            code, headers, text = door.ask("admin-token", "POST", "/api/v1/namespaces/default/events", body)
            answer = json.loads(text)
            if code == 429:
                found[answer["message"]] = (answer, headers.get("Retry-After"))
        said.append(found)
    real, weir = said
    every = next(text for text in real if text.count("limit reached") == 3)  # when all three are empty
    one = next(text for text in real if text.count("limit reached") == 1)
    assert weir[every] == real[every] and weir[one] == real[one]
