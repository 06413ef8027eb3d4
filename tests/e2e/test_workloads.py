"""What people do to workloads, with the real kubectl: history, going back, refusals, Services."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request

from tests.e2e.test_up import kubectl, until, up
from tests.e2e.warm import COLD, WARM

__all__ = ["kubectl"]

SET = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: agent, annotations: {{kubernetes.io/change-cause: first}}}}
spec:
  {more}
  selector: {{matchLabels: {{app: {kind}}}}}
  template:
    metadata: {{labels: {{app: {kind}}}}}
    spec: {{containers: [{{name: c, image: "agent:1"}}]}}
"""


def image(kubectl, kind):
    found = kubectl("get", kind, "agent", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    return found.strip()


def images(kubectl, kind):
    names = {"ds": "DaemonSet", "sts": "StatefulSet"}
    listed = json.loads(kubectl("get", "pods", "-l", f"app={names[kind]}", "-o", "json"))["items"]
    return {pod["spec"]["containers"][0]["image"] for pod in listed}


def walk(kubectl, kind, manifest):
    """Roll a set to a second template and back; return what kubectl and the cluster said on the way."""
    kubectl("apply", "-f", "-", stdin=manifest)
    kubectl("rollout", "status", f"{kind}/agent", "--timeout=60s")
    kubectl("annotate", kind, "agent", "kubernetes.io/change-cause=second", "--overwrite")
    kubectl("set", "image", f"{kind}/agent", "c=agent:2")
    kubectl("rollout", "status", f"{kind}/agent", "--timeout=60s")
    history = kubectl("rollout", "history", f"{kind}/agent")
    first = kubectl("rollout", "history", f"{kind}/agent", "--revision=1")
    kubectl("rollout", "undo", f"{kind}/agent")
    kubectl("rollout", "status", f"{kind}/agent", "--timeout=60s")
    until(lambda: images(kubectl, kind) == {"agent:1"})
    after = kubectl("rollout", "history", f"{kind}/agent")
    return (
        [line.split()[:1] for line in history.splitlines() if line[:1].isdigit()],
        "agent:1" in first,
        image(kubectl, kind),
        [line.split()[:1] for line in after.splitlines() if line[:1].isdigit()],
    )


def test_daemonsets_and_statefulsets_have_a_history_and_go_back_in_it(kubectl, tmp_path):
    went_back = ([["1"], ["2"]], True, "agent:1", [["2"], ["3"]])
    with up(tmp_path, "--nodes", "2"):
        daemons = walk(kubectl, "ds", SET.format(kind="DaemonSet", more=""))
        stateful = walk(kubectl, "sts", SET.format(kind="StatefulSet", more="serviceName: agent"))
    assert (daemons, stateful) == (went_back, went_back)


REFUSED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: stuck}
spec:
  selector: {matchLabels: {app: stuck}}
  template:
    metadata: {labels: {app: stuck}}
    spec: {priorityClassName: missing, containers: [{name: c, image: "app:1"}]}
"""


def test_lint_names_the_workloads_of_a_running_cluster_that_are_refused(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "1", "--store", "memory"):
        kubectl("create", "deployment", "fine", "--image=web:1")
        kubectl("rollout", "status", "deployment/fine", "--timeout=60s")
        kubectl("apply", "-f", "-", stdin=REFUSED)
        until(lambda: "ReplicaFailure" in kubectl("get", "deployment", "stuck", "-o", "yaml"))
        command = [*WARM, "lint", "--cluster"]
        found = subprocess.run(
            [*command, "--kubeconfig", str(kubectl.kubeconfig)], capture_output=True, text=True, timeout=60
        )
    lines = found.stdout.splitlines()
    assert (found.returncode, lines[0].split(":")[0], len([line for line in lines if "W030" in line])) == (
        1,
        "deployment/default/stuck spec.template.spec",
        1,
    )


def test_lint_of_a_cluster_that_does_not_answer_says_so(tmp_path):
    command = [*WARM, "lint", "--cluster", "--kubeconfig", str(tmp_path / "none")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (found.returncode in (2, 3), "Traceback" in found.stderr, len(found.stderr.splitlines())) == (
        True,
        False,
        1,
    )


def test_a_controller_manager_of_its_own_serves_what_it_counts(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "1", "--store", "memory"):
        words = ["controller-manager", "--controllers=pod-gc", "--metrics-port", "0"]
        command = [*COLD, *words, "--kubeconfig", str(kubectl.kubeconfig)]
        log = tmp_path / "manager.log"
        with log.open("w") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            (address,) = until(lambda: re.findall(r"http://127[^ ]+/metrics", log.read_text()))
            served = until(lambda: (page := _read(address)) and "workqueue_depth" in page and page)
            leads = until(lambda: re.findall(r"^leader_election_master_status.* 1$", _read(address), re.M))
        finally:
            process.terminate()
            process.wait(60)
    assert ("weir_controllers_reconciles_total" in served, len(leads)) == (True, 1)


def _read(address):
    with urllib.request.urlopen(address, timeout=60) as page:
        return page.read().decode()
