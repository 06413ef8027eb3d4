"""`weir device …` and the simulated driver on a real Kubernetes: its API server, scheduler and controllers."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.kubernetes.playground import Playground
from tests.kubernetes.programs import controller_manager, scheduler
from tests.kubernetes.real_server import real_server
from tests.kubernetes.test_living import weir

TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu"},
    "spec": {
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
        }
    },
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "train"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "train"}},
        "template": {
            "metadata": {"labels": {"app": "train"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
                "terminationGracePeriodSeconds": 1,
            },
        },
    },
}


class Real(Playground):
    """A real cluster with two simulated nodes of two GPUs each, and weir's commands for it."""

    def __init__(self, kubeconfig):
        super().__init__(kubeconfig)
        self.kubeconfig = kubeconfig

    def run(self, *words):
        command = [sys.executable, "-m", "weir.cli.main", *words, "--kubeconfig", str(self.kubeconfig)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    def device(self, *words):
        done = self.run("device", *words)
        assert done.returncode == 0, done
        return done

    def rows(self):
        found = json.loads(self.device("list", "-o", "json").stdout)["devices"]
        return {row["device"]: row for row in found}

    def create_device_object(self, document):
        resource = self._dynamic.resources.get(api_version=document["apiVersion"], kind=document["kind"])
        resource.create(document, namespace="default")

    def users(self):
        return [pod for row in self.rows().values() for claim in row["claims"] for pod in claim["pods"]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    with ExitStack() as stack:
        kubeconfig = stack.enter_context(real_server(folder))
        stack.enter_context(scheduler(folder, kubeconfig))
        stack.enter_context(controller_manager(folder, kubeconfig))
        stack.enter_context(weir(folder, "kubelet", "--kubeconfig", str(kubeconfig)))
        cluster = Real(kubeconfig)
        added = cluster.run("node", "add", "--count", "2", "--name", "n", "--class", "gpu", "--devices", "2")
        assert added.returncode == 0, added
        cluster.create_device_object(TEMPLATE)
        cluster.create(DEPLOYMENT)
        cluster.wait(
            "four devices, two in use", lambda: len(cluster.rows()) == 4 and len(cluster.users()) == 2
        )
        yield cluster


def test_a_selector_that_kubernetes_does_not_know_is_not_written(cluster):
    done = cluster.run("device", "taint", "--cel", "device.driver == 'gpu.example.com'", "m:NoSchedule")
    assert done.returncode == 1 and "this cluster" in done.stderr and "nothing was written" in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1


def test_a_rate_that_kubernetes_does_not_know_is_left_out_and_said_to_be(cluster):
    done = cluster.device("taint", "gpu.example.com/n-1/gpu-1", "m=1:NoSchedule", "--rate", "2")
    assert "this cluster does not know --rate: left out" in done.stderr
    assert "evictionsPerSecond" not in done.stdout
    (taint,) = cluster.rows()["gpu.example.com/n-1/gpu-1"]["taints"]
    cluster.device("untaint", "gpu.example.com/n-1/gpu-1", "m", "--yes")
    assert (taint["key"], taint["effect"], list(taint["origin"])) == ("m", "NoSchedule", ["rule"])


def test_a_degraded_device_is_published_with_its_taint_and_repaired(cluster):
    cluster.device("degrade", "n-1/gpu-0", "gpu.example.com/overheated=90:NoSchedule")

    def taints():
        return cluster.rows()["gpu.example.com/n-1/gpu-0"]["taints"]

    (first,) = cluster.wait("a taint of the driver", taints)
    cluster.device("degrade", "n-1/gpu-1", "gpu.example.com/overheated=95:NoSchedule")
    other = "gpu.example.com/n-1/gpu-1"
    cluster.wait("the other taint", lambda: cluster.rows()[other]["taints"])
    again = taints()
    cluster.device("repair", "n-1")
    cluster.wait("no taints", lambda: not taints())
    assert again == [first], "a taint that stays keeps its time"


def test_where_nobody_removes_a_taint_that_expires_the_command_does(cluster):
    done = cluster.device("taint", "pool=n-1", "hot:NoSchedule", "--ttl", "5s")
    assert "no controller of this cluster removes rules that expire" in done.stderr
    assert "deleted" in done.stderr and not cluster.rows()["gpu.example.com/n-1/gpu-0"]["taints"]


def test_a_drain_follows_the_real_controller_to_the_end(cluster):
    used = next(name for name, row in cluster.rows().items() if row["claims"])
    pool = used.split("/")[1]
    done = cluster.device("drain", f"pool={pool}", "--yes", "--timeout", "90s")
    left = [row for name, row in cluster.rows().items() if f"/{pool}/" in name and row["claims"]]
    cluster.device("untaint", f"pool={pool}", "weir.dev/drain", "--yes")
    assert "the cluster says: 2 published devices selected." in done.stderr
    assert f"drained; the taint stays: weir device untaint pool={pool} weir.dev/drain" in done.stderr
    assert not left
