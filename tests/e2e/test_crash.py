"""Killed at any moment during churn, the cluster comes back and ends up as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.kubectl import Kubectl, find_kubectls

KUBECTLS = find_kubectls()
KILLS = int(os.environ.get("WEIR_KILLS", "4"))
FLAKY = "failure-probability=15:NoExecute"
TOLERANT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: tolerant}
spec:
  replicas: 3
  selector: {matchLabels: {app: tolerant}}
  template:
    metadata: {labels: {app: tolerant}}
    spec:
      containers: [{name: c, image: tolerant}]
      tolerations: [{key: failure-probability, operator: Lt, value: "20", effect: NoExecute}]
"""


def start(folder):
    log = (folder / "up.log").open("w")
    command = [
        sys.executable,
        "-m",
        "weir.cli.main",
        "up",
        "--data-dir",
        str(folder / "data"),
        "--nodes",
        "4",
    ]
    process = subprocess.Popen([*command, "--secure-port", "0"], stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 60
    while "export KUBECONFIG" not in (folder / "up.log").read_text():
        assert process.poll() is None and time.monotonic() < deadline, (folder / "up.log").read_text()
        time.sleep(0.05)
    return process


def test_after_every_crash_all_converges_to_what_was_asked_for(tmp_path):
    if not KUBECTLS:
        if os.environ.get("CI"):
            pytest.fail("no kubectl on this machine, and CI must have one")
        pytest.skip("no kubectl on this machine: install kubernetes-client, or set KUBERNETES_BIN")
    kubectl = Kubectl(sorted(KUBECTLS.items())[0][1], tmp_path / "data" / "kubeconfig", tmp_path)
    chance = random.Random(5)
    process = start(tmp_path)
    try:
        kubectl("create", "deployment", "web", "--image=web:1", "--replicas=4")
        kubectl("apply", "-f", "-", stdin=TOLERANT)
        for round in range(KILLS):
            if round % 2:
                kubectl("taint", "node", "node-0", "failure-probability-")
            else:
                kubectl("taint", "node", "node-0", FLAKY)
            kubectl("scale", "deployment/web", f"--replicas={3 + round % 3}")
            time.sleep(chance.random())
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = start(tmp_path)
        kubectl("taint", "node", "node-0", FLAKY, "--overwrite")
        kubectl("scale", "deployment/web", "--replicas=5")

        def state():
            found = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
            return sorted(
                (p["metadata"]["labels"]["app"], p["status"]["phase"], p["spec"].get("nodeName") == "node-0")
                for p in found
                if p["metadata"]["labels"]["app"] == "web" or p["status"]["phase"] != "Running"
            )

        deadline = time.monotonic() + 60
        while state() != [("web", "Running", False)] * 5:
            assert time.monotonic() < deadline, state()
            time.sleep(0.3)
        kubectl("rollout", "status", "deployment/tolerant", "--timeout=30s")
        # Nobody who tolerates the taint was ever asked to leave.
        told = kubectl("get", "events", "--field-selector", "reason=TaintManagerEviction", "-o", "json")
        assert "tolerant" not in told
    finally:
        process.terminate()
        process.wait(20)
