"""One server for all kubectls, and one namespace for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.e2e.kubectl import Kubectl, find_kubectls, newest_kubectl
from tests.e2e.server import running_server
from weir.client.api import Client
from weir.client.http import connect
from weir.objects.kinds import by_kind

NAMESPACES = by_kind("v1", "Namespace")
#: The newest and the oldest of this machine; those between have nothing that neither of the two has.
KUBECTLS = {
    f"kubectl-{program}": program for program in dict.fromkeys((*find_kubectls()[:1], *find_kubectls()[-1:]))
}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("apiserver"), "--feature-gates", "AllAlpha=true") as running:
        yield running


@pytest.fixture(params=list(KUBECTLS) or ["none"])
def kubectl(request, server):
    # each kubectl has one home: what it discovers of the server is kept there, as it is on a person's machine
    home = server.data / f"home-{request.param}"
    home.mkdir(exist_ok=True)
    return Kubectl(KUBECTLS.get(request.param) or newest_kubectl(), server.kubeconfig, home)


@pytest.fixture
def namespace(kubectl, request):
    def ask(question: Callable[[Client], Awaitable[object]]) -> None:
        async def asked() -> None:
            client = connect(kubectl.kubeconfig)
            try:
                await question(client)
            finally:
                await client.close()

        asyncio.run(asked())

    name = f"e2e-{abs(hash(request.node.nodeid)) % 10**8}"
    ask(lambda client: client.create(NAMESPACES, {"metadata": {"name": name}}))
    yield name
    ask(lambda client: client.delete(NAMESPACES, name))
