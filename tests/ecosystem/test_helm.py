"""Helm 3 and 4 with a chart that has definitions, hooks, a schema and a test: install, upgrade, rollback, uninstall."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.ecosystem.cluster import Cluster, wait_for
from tests.ecosystem.conftest import built

CHART = Path(__file__).parent / "chart"


class Helm:
    """A helm of one version, in a namespace of its own."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.program, self.cluster, self.namespace = built(name).programs / "helm", cluster, name

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"helm {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, "--namespace", self.namespace, *words],
            env=self.cluster.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def at(self, path: str) -> dict | None:
        return self.cluster.find(path.replace("NS", self.namespace))


POND = "/apis/chart.example.com/v1/namespaces/NS/ponds/lily"
DEPLOYMENT = "/apis/apps/v1/namespaces/NS/deployments/lily"
DEEP = "/api/v1/namespaces/NS/configmaps/lily-deep"
MIGRATE = "/apis/batch/v1/namespaces/NS/jobs/lily-migrate"
FAREWELL = "/apis/batch/v1/namespaces/NS/jobs/lily-farewell"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ponds.chart.example.com"


@pytest.fixture(scope="module", params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest, cluster: Cluster):
    """A helm, and no trace of the other's chart."""
    if cluster.find(DEFINITION) is not None:
        cluster.delete(DEFINITION)
        wait_for(lambda: cluster.find(DEFINITION) is None, "the definition of the other helm is gone")
    return Helm(request.param, cluster)


def test_a_chart_lives_from_install_to_uninstall(helm: Helm):
    said = helm("install", "lily", str(CHART), "--create-namespace", "--wait", "--timeout", "4m")
    assert "STATUS: deployed" in said and "lily is 3 deep; the server is v1." in said
    assert helm.at(DEFINITION) is not None
    assert helm.at(POND)["spec"] == {"depth": 3, "fish": [{"name": "carp"}]}
    assert helm.at(DEPLOYMENT)["status"]["availableReplicas"] == 2
    job = helm.at(MIGRATE)
    assert job["status"]["succeeded"] == 1
    # what is waited for before the chart's own objects is over when they are made
    assert job["status"]["completionTime"] <= helm.at(DEPLOYMENT)["metadata"]["creationTimestamp"]

    helm("upgrade", "lily", str(CHART), "--set", "depth=7,replicas=3", "--wait", "--timeout", "4m")
    assert helm.at(POND)["spec"]["depth"] == 7
    assert helm.at(DEPLOYMENT)["status"]["availableReplicas"] == 3
    assert helm.at(DEEP)["data"] == {"revision": "2"}
    assert helm.at(MIGRATE)["metadata"]["uid"] != job["metadata"]["uid"]

    helm("rollback", "lily", "1", "--wait", "--timeout", "4m")
    assert helm.at(POND)["spec"]["depth"] == 3
    assert helm.at(DEPLOYMENT)["spec"]["replicas"] == 2
    assert helm.at(DEEP) is None
    history = json.loads(helm("history", "lily", "-o", "json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]

    assert "Phase:          Succeeded" in helm("test", "lily", "--timeout", "4m")

    helm("uninstall", "lily", "--wait", "--timeout", "4m")
    assert (helm.at(POND), helm.at(DEPLOYMENT)) == (None, None)
    assert helm.at(FAREWELL)["status"]["succeeded"] == 1
    assert helm.at(DEFINITION) is not None  # Helm never deletes definitions


def test_what_the_server_refuses_fails_the_release_with_its_words(helm: Helm):
    done = helm.run("install", "deep", str(CHART), "--create-namespace", "--set", "depth=100")
    assert done.returncode != 0
    assert "no pond is that deep" in done.stderr
    assert json.loads(helm("status", "deep", "-o", "json"))["info"]["status"] == "failed"
    helm("uninstall", "deep")


def test_a_hook_that_fails_stops_the_chart(helm: Helm):
    words = ("--create-namespace", "--set", "migration.exitCode=1", "--timeout", "2m")
    done = helm.run("install", "broken", str(CHART), *words)
    assert done.returncode != 0
    # Helm 3 shows the reason of the Job's condition, Helm 4 counts its pods
    assert "failed pre-install" in done.stderr
    assert "BackoffLimitExceeded" in done.stderr or "Job Failed. failed: 1/1" in done.stderr
    assert helm.at(DEPLOYMENT.replace("lily", "broken")) is None


def test_a_dry_run_asks_the_server_and_changes_nothing(helm: Helm):
    words = ("--dry-run=server", "--create-namespace")
    said = helm("install", "shown", str(CHART), *words)
    assert "kind: Pond" in said
    assert helm.at(POND.replace("lily", "shown")) is None
