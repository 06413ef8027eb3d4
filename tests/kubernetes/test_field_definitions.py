"""Definitions from the field, unmodified: a real API server and weir's say the same about them and about their objects.

The definitions are read from Go modules (downloaded once, nothing of them is kept here): the Gateway API, Karpenter and
cert-manager, which between them use most of what schemas and rules can say.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import NOT_OURS
from tests.kubernetes.custom_resource_requests import CRDS
from tests.kubernetes.requests import Asked, Document
from tests.kubernetes.test_same_custom_resources import ask, wait_established
from tests.kubernetes.test_same_requests import both_servers

#: module and version → where its definitions are
MODULES = {
    "sigs.k8s.io/gateway-api@v1.4.0": "config/crd/experimental",
    "sigs.k8s.io/karpenter@v1.8.0": "pkg/apis/crds",
    "github.com/cert-manager/cert-manager@v1.19.1": "deploy/crds",
}
GATEWAY = "gateway.networking.k8s.io/v1"


def module(name: str) -> Path:
    """Return the folder of a Go module; it is downloaded when it is not there."""
    if shutil.which("go") is None:
        pytest.skip(f"{NOT_OURS}: no Go on this machine")
    found = subprocess.run(["go", "mod", "download", "-json", name], capture_output=True, text=True, cwd="/")
    if found.returncode:
        pytest.skip(f"{NOT_OURS}: {name} cannot be downloaded")
    return Path(json.loads(found.stdout)["Dir"])


def definitions() -> Iterator[Document]:
    for name, folder in MODULES.items():
        for path in sorted((module(name) / folder).glob("*_*.yaml")):
            for found in yaml.safe_load_all(path.read_text()):
                if found and found.get("kind") == "CustomResourceDefinition":
                    yield found


def http_route(name: str, path: str, **rule: Any) -> Document:
    matches = [{"path": {"type": "PathPrefix", "value": path}}]
    return {
        "apiVersion": GATEWAY,
        "kind": "HTTPRoute",
        "metadata": {"name": name},
        "spec": {"parentRefs": [{"name": "g"}], "rules": [{"matches": matches, **rule}]},
    }


def gateway(name: str, *listeners: Document) -> Document:
    return {
        "apiVersion": GATEWAY,
        "kind": "Gateway",
        "metadata": {"name": name},
        "spec": {"gatewayClassName": "c", "listeners": list(listeners)},
    }


def node_pool(name: str, *requirements: Document) -> Document:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": list(requirements)}},
            "disruption": {"consolidateAfter": "0s"},
        },
    }


ROUTES = f"/apis/{GATEWAY}/namespaces/default/httproutes"
GATEWAYS = f"/apis/{GATEWAY}/namespaces/default/gateways"
POOLS = "/apis/karpenter.sh/v1/nodepools"
HTTP = {"name": "l", "port": 80, "protocol": "HTTP"}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
OBJECTS = {
    "route": (ROUTES, http_route("a", "/a", backendRefs=[{"name": "s", "port": 80}])),
    "route with an odd path": (ROUTES, http_route("b", "a//b", filters=[{"type": "RequestRedirect"}])),
    "gateway": (GATEWAYS, gateway("g", HTTP)),
    "gateway with listeners alike": (GATEWAYS, gateway("h", HTTP, HTTP)),
    "gateway with TLS on HTTP": (GATEWAYS, gateway("i", {**HTTP, "tls": {"mode": "Terminate"}})),
    "pool": (POOLS, node_pool("p", ON_DEMAND)),
    "pool with odd requirements": (
        POOLS,
        node_pool("q", {"key": "x", "operator": "Gt", "values": ["1", "2"]}, {**ON_DEMAND, "values": []}),
    ),
    "certificate without an issuer": (
        "/apis/cert-manager.io/v1/namespaces/default/certificates",
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Certificate",
            "metadata": {"name": "c"},
            "spec": {"secretName": "s"},
        },
    ),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, tuple[Any, Any]]:
    """What both servers say to every definition, then to every object."""
    written = list(definitions())
    with both_servers(tmp_path_factory.mktemp("field")) as servers:
        found = {}
        for each in written:
            name = each["metadata"]["name"]
            found[name] = tuple(ask(server, Asked(name, "POST", CRDS, each)) for server in servers)
        for each in written:
            for server in servers:
                wait_established(server, each["metadata"]["name"])
        for name, (path, body) in OBJECTS.items():
            found[name] = tuple(ask(server, Asked(name, "POST", path, body)) for server in servers)
        return found


def test_every_definition_is_taken_and_answered_alike(answers):
    taken = {name: pair for name, pair in answers.items() if name not in OBJECTS}
    assert len(taken) > 15
    assert {name: real[0] for name, (real, _) in taken.items()} == dict.fromkeys(taken, 201)
    assert [name for name, (real, weir) in taken.items() if real != weir] == []


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_judged_alike(answers, name):
    real, weir = answers[name]
    assert weir == real
