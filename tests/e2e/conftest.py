"""One server for all kubectls, and one namespace for each test."""

from __future__ import annotations

import os

import pytest

from tests.e2e.kubectl import Kubectl, find_kubectls
from tests.e2e.server import running_server

KUBECTLS = find_kubectls()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("apiserver"), "--feature-gates", "AllAlpha=true") as running:
        yield running


@pytest.fixture(params=sorted(KUBECTLS) or ["none"])
def kubectl(request, server, tmp_path):
    if request.param == "none":
        if os.environ.get("CI"):
            pytest.fail("no kubectl on this machine, and CI must have one")
        pytest.skip("no kubectl on this machine: install kubernetes-client, or set KUBERNETES_BIN")
    return Kubectl(KUBECTLS[request.param], server.kubeconfig, tmp_path)


@pytest.fixture
def namespace(kubectl, request):
    name = f"e2e-{abs(hash(request.node.nodeid)) % 10**8}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
