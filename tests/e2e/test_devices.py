"""`weir up --gpus` and `weir device …` as processes: what a person sees, also after Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.e2e.terminal import CTRL_C, Terminal
from tests.e2e.test_up import kubectl, until, up
from tests.e2e.warm import COLD, WARM

__all__ = ["kubectl"]

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "patient"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu.example.com",
                        "tolerations": [
                            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}
                        ],
                    },
                }
            ]
        }
    },
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "patient"},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "patient"}],
    },
}


def device(kubectl, *words, start=WARM):
    return [*start, "device", *words, "--kubeconfig", str(kubectl.kubeconfig)]


def test_an_interrupted_drain_says_who_is_left_and_how_to_stop_it(kubectl, tmp_path):
    (tmp_path / "pod.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [CLAIM, POD]})
    )
    with up(tmp_path, "--nodes", "1", "--gpus", "2"):
        kubectl("apply", "-f", str(tmp_path / "pod.json"))
        kubectl("wait", "--for=condition=Ready", "pod/patient", "--timeout=60s")
        said = tmp_path / "drain.err"
        with said.open("w") as errors:
            draining = subprocess.Popen(
                device(kubectl, "drain", "pool=node-0", "--yes"),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ},
            )
        until(lambda: "0 of 1 pod evicted, 1 to go" in said.read_text(), 60)
        draining.send_signal(signal.SIGINT)
        code = draining.wait(60)
        last = said.read_text().splitlines()[-1]
        rules = json.loads(kubectl("get", "devicetaintrules", "-o", "json"))["items"]
        stop = last.partition("Stop it: weir device ")[2].split()
        stopped = subprocess.run(device(kubectl, *stop, "--yes"), capture_output=True, text=True, timeout=60)
        left = json.loads(kubectl("get", "devicetaintrules", "-o", "json"))["items"]
        assert (code, [rule["spec"]["taint"]["effect"] for rule in rules]) == (130, ["NoExecute"])
        assert last.startswith(
            "interrupted: 1 pod of 1 not gone yet by the rule's last report (one every 10 s); the rule drain-"
        )
        assert (stopped.returncode, left) == (0, [])
        assert "Traceback" not in said.read_text()


@pytest.mark.proves("5055-99")
def test_devices_and_what_was_done_to_them_outlive_a_restart(kubectl, tmp_path):
    def taints():
        shown = subprocess.run(
            device(kubectl, "list", "-o", "json"), capture_output=True, text=True, timeout=60
        )
        return {row["device"][-5:]: row["taints"] for row in json.loads(shown.stdout)["devices"]}

    def degrade(name):
        subprocess.run(device(kubectl, "degrade", name), check=True, capture_output=True, timeout=60)

    with up(tmp_path, "--nodes", "1", "--gpus", "2"):
        until(lambda: len(taints()) == 2)
        degrade("node-0/gpu-1")
        before = until(lambda: taints()["gpu-1"])
    with up(tmp_path, "--nodes", "1"):
        degrade("node-0/gpu-0")
        until(lambda: taints()["gpu-0"])  # the driver is at work again
        assert taints()["gpu-1"] == before


def test_ctrl_c_at_the_question_is_a_no_at_once(kubectl, tmp_path):
    (tmp_path / "pod.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [CLAIM, POD]})
    )
    with up(tmp_path, "--nodes", "1", "--gpus", "2"):
        kubectl("apply", "-f", str(tmp_path / "pod.json"))
        kubectl("wait", "--for=condition=Ready", "pod/patient", "--timeout=60s")
        draining = Terminal(device(kubectl, "drain", "pool=node-0", start=COLD))
        draining.read_until(b"[y/N]")
        draining.type(CTRL_C)
        code = draining.wait()
        rules = json.loads(kubectl("get", "devicetaintrules", "-o", "json"))["items"]
        phase = kubectl("get", "pod", "patient", "-o", "jsonpath={.status.phase}")
    said = draining.said
    assert (code, rules, phase) == (130, [], "Running"), said
    assert b"evict 1 pod in context weir (https://127.0.0.1:" in said
    assert b"no pod was evicted; the rule is removed again" in said and b"Traceback" not in said
