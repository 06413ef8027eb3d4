"""weir's controllers and simulated nodes work for a real kube-apiserver, in place of the built-in ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest

from tests.kubernetes.playground import Playground, pod, template
from tests.kubernetes.real_server import real_server

GATES = "AllAlpha=false,TaintTolerationComparisonOperators=true"
FLAKY = {"key": "failure-probability", "value": "15", "effect": "NoExecute"}


@contextmanager
def weir(folder, *arguments):
    """Give a running weir command; it must still run at the end."""
    log = folder / f"{arguments[0]}.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "weir.cli.main", *arguments]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ})
    try:
        yield
        assert process.poll() is None and "Traceback" not in log.read_text(), log.read_text()[-3000:]
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("living")
    with ExitStack() as stack:
        kubeconfig = stack.enter_context(real_server(folder))
        common = ("--kubeconfig", str(kubeconfig), "--feature-gates", GATES)
        chosen = (
            "--controllers=taint-eviction,node-lifecycle,daemonset,deployment,replicaset,garbage-collector"
        )
        stack.enter_context(weir(folder, "scheduler", *common, "--no-leader-elect"))
        stack.enter_context(weir(folder, "controller-manager", *common, chosen))
        stack.enter_context(weir(folder, "kubelet", *common))
        command = [sys.executable, "-m", "weir.cli.main", "node", "add", "--count", "3", "--name", "n"]
        subprocess.run([*command, "--kubeconfig", str(kubeconfig)], check=True)
        yield Playground(kubeconfig)  # its own stand-in for kubelets is not started


def running(cluster, selector):
    return [p for p in cluster.pods(selector, "default") if p["status"].get("phase") == "Running"]


def test_simulated_nodes_are_ready_and_untainted(cluster):
    def well():
        nodes = [cluster.get("Node", f"n-{number}", None) for number in range(3)]
        return all(
            node and not node["spec"].get("taints") and node["status"]["conditions"][-1]["status"] == "True"
            for node in nodes
        )

    assert cluster.wait("three nodes without taints", well)


def test_a_noexecute_taint_evicts_who_does_not_tolerate_it(cluster):
    entry = {"key": "failure-probability", "operator": "Lt", "value": "20", "effect": "NoExecute"}
    cluster.create(pod("leaves", nodeName="n-0"))
    cluster.create(pod("stays", nodeName="n-0", tolerations=[entry]))
    cluster.create(pod("bounded", nodeName="n-0", tolerations=[{**entry, "tolerationSeconds": 3}]))
    for name in ("leaves", "stays", "bounded"):
        cluster.wait(f"{name} runs", lambda name=name: running(cluster, f"app={name}"))
    began = time.monotonic()
    cluster.patch("Node", "n-0", {"spec": {"taints": [FLAKY]}})
    cluster.wait("the one without toleration is gone", lambda: not cluster.pods("app=leaves", "default"))
    cluster.wait("the bounded one is gone", lambda: not cluster.pods("app=bounded", "default"))
    lasted = time.monotonic() - began
    messages = {e["message"] for e in cluster.events("TaintManagerEviction")}
    cluster.patch("Node", "n-0", {"spec": {"taints": None}})
    assert (lasted > 3, bool(running(cluster, "app=stays")), messages) == (
        True,
        True,
        {"Marking for deletion Pod default/leaves", "Marking for deletion Pod default/bounded"},
    )


def test_a_daemonset_runs_on_every_node_it_tolerates(cluster):
    cluster.patch("Node", "n-2", {"spec": {"taints": [FLAKY]}})
    cluster.create(
        {"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": "agent"},
         "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")}}
    )  # fmt: skip
    cluster.wait(
        "a pod on both nodes",
        lambda: {p["spec"]["nodeName"] for p in running(cluster, "app=agent")} == {"n-0", "n-1"},
    )
    cluster.patch("Node", "n-2", {"spec": {"taints": None}})
    assert cluster.wait("a pod on the third", lambda: len(running(cluster, "app=agent")) == 3)


def test_a_deployment_rolls_and_goes_with_its_pods(cluster):
    cluster.create(
        {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"},
         "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")}}
    )  # fmt: skip
    cluster.wait("three pods run", lambda: len(running(cluster, "app=web")) == 3)
    cluster.patch(
        "Deployment", "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}, "default"
    )

    def rolled():
        pods = running(cluster, "app=web")
        return len(pods) == 3 and all(p["metadata"]["labels"].get("v") == "2" for p in pods)

    cluster.wait("the new version runs alone", rolled)
    cluster._resource("Deployment").delete(name="web", namespace="default")
    assert cluster.wait("the pods are gone", lambda: not cluster.pods("app=web", "default"))


def test_lint_names_a_workload_of_a_real_cluster_whose_pods_are_refused(cluster, tmp_path_factory):
    refused = template("stuck", priorityClassName="missing")
    cluster.create(
        {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "stuck"},
         "spec": {"selector": {"matchLabels": {"app": "stuck"}}, "template": refused}}
    )  # fmt: skip
    cluster.wait(
        "the Deployment says so",
        lambda: any(
            c["type"] == "ReplicaFailure"
            for c in (cluster.get("Deployment", "stuck") or {}).get("status", {}).get("conditions") or ()
        ),
    )
    (kubeconfig,) = {p.resolve() for p in tmp_path_factory.getbasetemp().glob("living*/real.kubeconfig")}
    command = [sys.executable, "-m", "weir.cli.main", "lint", "--cluster", "--kubeconfig", str(kubeconfig)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = [line.split(":")[0] for line in found.stdout.splitlines() if "W030" in line]
    assert (found.returncode, lines) == (1, ["deployment/default/stuck spec.template.spec"]), found.stderr
