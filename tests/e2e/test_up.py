"""`weir up` with the real kubectl: a deployment rolls, a taint evicts, a restart keeps everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.e2e.kubectl import Kubectl, find_kubectls

KUBECTLS = find_kubectls()


@contextmanager
def up(folder, *options):
    """Give a running `weir up`; it must stop cleanly when it is interrupted."""
    log = folder / "up.log"
    command = [sys.executable, "-m", "weir.cli.main", "up", "--data-dir", str(folder / "data")]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--secure-port", "0", *options],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ},
        )
    try:
        deadline = time.monotonic() + 60
        while "export KUBECONFIG" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            code = process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    assert code == 0 and "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture
def kubectl(tmp_path):
    if not KUBECTLS:
        if os.environ.get("CI"):
            pytest.fail("no kubectl on this machine, and CI must have one")
        pytest.skip("no kubectl on this machine: install kubernetes-client, or set KUBERNETES_BIN")
    return Kubectl(sorted(KUBECTLS.items())[0][1], tmp_path / "data" / "kubeconfig", tmp_path)


def until(check, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return found


def pods(kubectl):
    return json.loads(kubectl("get", "pods", "-o", "json"))["items"]


def test_a_deployment_lives_through_rollout_scaling_taint_and_restart(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "3"):
        kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3")
        kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        kubectl("set", "image", "deployment/web", "web=web:2")
        kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        kubectl("rollout", "undo", "deployment/web")
        kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        kubectl("scale", "deployment/web", "--replicas=4")
        kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        kubectl("taint", "node", "node-0", "flaky=1:NoExecute")
        until(lambda: {p["spec"]["nodeName"] for p in pods(kubectl)} == {"node-1", "node-2"})
        kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    with up(tmp_path, "--nodes", "3"):
        kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        images = {p["spec"]["containers"][0]["image"] for p in pods(kubectl)}
        kubectl("delete", "deployment", "web")
        until(lambda: not pods(kubectl))
        assert images == {"web:1"}


def test_nodes_come_fail_and_go_on_command(kubectl, tmp_path):
    def weir(*arguments):
        command = [sys.executable, "-m", "weir.cli.main", "node", *arguments]
        return subprocess.run(
            [*command, "--kubeconfig", str(kubectl.kubeconfig)], capture_output=True, text=True, check=True
        ).stdout

    with up(tmp_path, "--nodes", "0", "--store", "memory"):
        said = weir("add", "--count", "3", "--class", "spot", "--taint", "failure-probability=15:NoExecute")
        kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=30s")
        weir("fail", "spot-0")
        failed = kubectl("get", "node", "spot-0", "-o", "jsonpath={.metadata.annotations}")
        weir("recover", "spot-0")
        weir("remove", "spot-1")
        left = kubectl("get", "nodes", "-o", "name").split()
        assert (said.strip(), "weir.dev/failed" in failed, left) == (
            "3 nodes added: spot-0 … spot-2",
            True,
            ["node/spot-0", "node/spot-2"],
        )


def test_a_second_one_on_the_same_data_says_who_holds_it(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "1") as first:
        command = [sys.executable, "-m", "weir.cli.main", "up", "--data-dir", str(tmp_path / "data")]
        second = subprocess.run([*command, "--secure-port", "0"], capture_output=True, text=True, timeout=30)
        assert (second.returncode != 0, f"in use by process {first.pid}" in second.stderr) == (True, True)


def test_status_and_down_know_who_runs(tmp_path):
    def weir(command):
        words = [sys.executable, "-m", "weir.cli.main", command, "--data-dir", str(tmp_path / "data")]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    before = weir("status")[0]
    with up(tmp_path, "--nodes", "2") as process:
        until(lambda: "nodes: 2 of 2 ready" in weir("status")[1])
        stopped = weir("down")[1]
        process.wait(20)
    assert (before, f"stopped process {process.pid}" in stopped, weir("status")[0]) == (1, True, 1)


def test_a_deleted_namespace_goes_with_everything_in_it(kubectl, tmp_path):
    with up(tmp_path, "--nodes", "2", "--store", "memory"):
        kubectl("create", "namespace", "team")
        kubectl("create", "deployment", "web", "--image=web:1", "-n", "team")
        kubectl("rollout", "status", "deployment/web", "-n", "team", "--timeout=30s")
        kubectl("delete", "namespace", "team", "--timeout=40s")
        assert "not found" in kubectl("get", "namespace", "team", fails=True)
