"""kube-scheduler and kube-controller-manager work under their own certificates: RBAC gives them what they need."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.e2e.server import running_server
from tests.kubernetes.playground import Playground, template
from tests.kubernetes.programs import controller_manager, scheduler
from weir.cli.kubeconfig import kubeconfig

pytestmark = pytest.mark.proves("5055-79")


def let_in(server, folder, component):
    """Return a kubeconfig of *component*'s own."""
    path = folder / f"{component}.kubeconfig"
    made = CliRunner().invoke(
        kubeconfig, ["--data-dir", str(server.data), "--component", component, "-o", str(path)]
    )
    assert made.exit_code == 0, made.output
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    with (
        running_server(folder) as server,
        scheduler(folder, let_in(server, folder, "kube-scheduler")),
        controller_manager(
            folder,
            let_in(server, folder, "kube-controller-manager"),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={server.data / 'pki' / 'sa.key'}",
            f"--root-ca-file={server.data / 'pki' / 'ca.crt'}",
        ),
        Playground(server.kubeconfig) as playground,
    ):
        playground.node("n0")
        playground.folder = folder
        yield playground


def test_a_deployment_comes_up_and_nobody_was_refused(cluster):
    labels = {"matchLabels": {"app": "web"}}
    cluster.create(
        {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": labels, "template": template("web")},
        }
    )
    cluster.wait(
        "two pods run",
        lambda: len([p for p in cluster.pods("app=web") if p["status"].get("phase") == "Running"]) == 2,
    )
    logs = {
        name: (cluster.folder / f"{name}.log").read_text()
        for name in ("kube-scheduler", "kube-controller-manager")
    }
    refused = [line for log in logs.values() for line in log.splitlines() if "forbidden" in line.lower()]
    assert refused == []
