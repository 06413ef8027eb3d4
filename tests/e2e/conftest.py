"""One server for all kubectls, and one namespace for each test."""

from __future__ import annotations

import pytest

from tests.e2e.kubectl import Kubectl, find_kubectls, newest_kubectl
from tests.e2e.server import running_server

KUBECTLS = {f"kubectl-{program}": program for program in find_kubectls()}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("apiserver"), "--feature-gates", "AllAlpha=true") as running:
        yield running


@pytest.fixture(params=list(KUBECTLS) or ["none"])
def kubectl(request, server, tmp_path):
    return Kubectl(KUBECTLS.get(request.param) or newest_kubectl(), server.kubeconfig, tmp_path)


@pytest.fixture
def namespace(kubectl, request):
    name = f"e2e-{abs(hash(request.node.nodeid)) % 10**8}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
