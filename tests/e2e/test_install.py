"""docs/howto/extend-your-cluster.md: install, run the operator with its own rights only, use its web.yaml, take it out.

The one test of the whole way, so it is longer than others; `weir up` with the gates off stands for any cluster.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager

import yaml

from tests.documented import ROOT, files
from tests.e2e.kubectl import Kubectl, newest_kubectl
from tests.e2e.test_up import up
from tests.e2e.warm import COLD, WARM

PAGE = ROOT / "docs" / "howto" / "extend-your-cluster.md"
WEB = dict(files(PAGE))["web.yaml"].replace(
    "      tolerations:", "      nodeSelector: {kubernetes.io/hostname: node-0}\n      tolerations:"
)

NOTED = dict(files(PAGE))["noted.yaml"]


def weir(kubeconfig, *words, code=0):
    done = subprocess.run(
        [*WARM, *words],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def own_kubeconfig(kubectl, kubeconfig, folder):
    """Return a kubeconfig with a token of the operator's service account, and nothing else."""
    answer = kubectl(
        "create", "--raw", "/api/v1/namespaces/weir-system/serviceaccounts/weir-operator/token", "-f", "-",
        stdin='{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}',
    )  # fmt: skip
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"] = [
        {"name": each["name"], "user": {"token": json.loads(answer)["status"]["token"]}}
        for each in document["users"]
    ]
    place = folder / "operator.kubeconfig"
    place.write_text(yaml.safe_dump(document))
    return place


@contextmanager
def operator(folder, kubeconfig, url):
    log = folder / "operator.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*COLD, "operator", "--url", url],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        )
    try:
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def eventually(holds, what, patience=60):
    deadline = time.monotonic() + patience
    while not (found := holds()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.1)
    return found


def node_of(kubectl, name):
    pods = json.loads(kubectl("get", "pods", "-l", f"app={name}", "-o", "json"))["items"]
    return [each["spec"].get("nodeName") for each in pods if "deletionTimestamp" not in each["metadata"]]


def test_from_nothing_to_a_numeric_toleration_and_back(tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    url = f"https://127.0.0.1:{port}"
    off = (
        "TaintTolerationComparisonOperators=false,TaintTolerationNodeAffinitySemverComparisonOperators=false"
    )
    with up(tmp_path, "--feature-gates", f"{off},TaintTolerationCEL=false", "--nodes", "2"):
        kubeconfig = tmp_path / "data" / "kubeconfig"
        kubectl = Kubectl(newest_kubectl(), kubeconfig, tmp_path)
        assert "not installed" in weir(kubeconfig, "check")
        assert "Unsupported value" in kubectl("create", "-f", "-", stdin=pod("gt"), fails=True)

        manifests = weir(kubeconfig, "install", "--url", url)
        kubectl("apply", "-f", "-", stdin=manifests)
        assert "connection refused" in kubectl("apply", "-f", "-", stdin=WEB, fails=True), (
            "closed until it answers"
        )
        with operator(tmp_path, own_kubeconfig(kubectl, kubeconfig, tmp_path), url) as log:
            eventually(lambda: " Ready " in log.read_text(), "the operator does not become ready")
            eventually(lambda: '"verdict": "todo"' not in check(kubeconfig), "the checks do not pass")
            kubectl("taint", "node", "node-0", "sla=950:NoExecute")
            kubectl("apply", "-f", "-", stdin=WEB)
            kubectl("rollout", "status", "deployment/web", "--timeout=60s")
            assert node_of(kubectl, "web") == ["node-0", "node-0"]

            explained = weir(kubeconfig, "explain", "deployment", "web")
            assert "sla > 900" in explained and "through weir's operator" in explained
            assert "lowered.weir.dev" not in explained

            kubectl("taint", "node", "node-0", "sla=960:NoExecute", "--overwrite")
            kubectl("apply", "--server-side", "-f", "-", stdin=WEB)  # after a client's apply: no conflict
            kubectl("apply", "-f", "-", stdin=WEB)  # the two write their annotation differently
            kubectl("apply", "-f", "-", stdin=NOTED)
            assert "unchanged" in kubectl("apply", "-f", "-", stdin=NOTED)
            assert "conflict" not in kubectl("apply", "--server-side", "-f", "-", stdin=NOTED)
            eventually(
                lambda: node_of(kubectl, "noted")[0], "a pod of a template with an annotation is bound"
            )
            assert "sla > 900" in weir(kubeconfig, "explain", "deployment", "noted")
            assert kubectl("diff", "-f", "-", stdin=NOTED) == ""
            names = kubectl("get", "pods", "-o", "name")
            before = kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.generation} {.spec}")
            kubectl("apply", "-f", "-", stdin=WEB)
            assert (
                kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.generation} {.spec}") == before
            )
            assert kubectl("apply", "-f", "-", stdin=manifests).count("created") == 0
            assert kubectl("get", "pods", "-o", "name") == names, "960 is tolerated, and nobody left"
            kubectl("delete", "pod", "weir-sentinel", "-n", "weir-system")  # the operator makes it again
            kubectl("taint", "node", "node-0", "sla=800:NoExecute", "--overwrite")
            eventually(lambda: "node-0" not in node_of(kubectl, "web"), "800 is not tolerated")
            assert "forbidden" not in log.read_text().casefold()

            assert "path secret" in weir(kubeconfig, "install", "--rotate-path", "--yes")
            planned = weir(kubeconfig, "uninstall", "--dry-run")
            assert "deployment default/noted: sla > 900" in planned
            assert "deployment default/web: sla > 900" in planned and "nothing was changed" in planned
            weir(kubeconfig, "uninstall", code=2)
            assert "namespace/weir-system deleted" in weir(kubeconfig, "uninstall", "--yes")
            assert "Unsupported value" in kubectl("create", "-f", "-", stdin=pod("gt"), fails=True)


@contextmanager
def applying(kubeconfig, url, *words):
    """Run `weir install --apply` beside the test, as somebody at a terminal; give it and what it printed last."""
    process = subprocess.Popen(
        [*COLD, "install", "--url", url, "--apply", "--yes", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"},
    )
    try:
        command = next((line for line in process.stdout if line.startswith("start it now: ")), "")
        yield process, command.removeprefix("start it now: ").split()
    finally:
        process.kill()
        process.communicate()


def test_apply_prints_the_command_that_works_and_takes_back_what_does_not_come_about(tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    url = f"https://127.0.0.1:{port}"
    off = "TaintTolerationComparisonOperators=false,TaintTolerationCEL=false"
    with up(tmp_path, "--feature-gates", off, "--nodes", "1"):
        kubeconfig = tmp_path / "data" / "kubeconfig"
        kubectl = Kubectl(newest_kubectl(), kubeconfig, tmp_path)

        def nothing_is_left():
            kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles"
            listed = kubectl("get", kinds, "-o", "name") + kubectl("get", "namespaces", "-o", "name")
            return "weir" not in listed

        with applying(kubeconfig, url, "--timeout", "2") as (process, command):
            rest, _ = process.communicate(timeout=60)
            assert process.returncode == 3 and "after 2 s the operator does not answer; start it now" in rest
            assert "taking back what was created" in rest and "namespace/weir-system deleted" in rest
        eventually(nothing_is_left, "what was created is still there")

        with applying(kubeconfig, url) as (process, command):
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=60)
            assert process.returncode == 130 and "namespace/weir-system deleted" in rest, rest
            assert "Traceback" not in rest
        eventually(nothing_is_left, "what was created is still there")

        with applying(kubeconfig, url) as (process, command):
            assert command[:2] == ["weir", "operator"]
            started = subprocess.Popen(
                [*COLD, *command[1:]],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            )
            try:
                rest, _ = process.communicate(timeout=90)
                assert process.returncode == 0, rest
                assert "the barrier before nodes is in force" in rest
                stored = kubectl("get", "validatingwebhookconfiguration", "weir-nodes", "-o", "json")
                assert [hook["failurePolicy"] for hook in json.loads(stored)["webhooks"]] == [
                    "Fail",
                    "Ignore",
                ]
            finally:
                started.terminate()
                started.wait(60)


def check(kubeconfig):
    done = subprocess.run(
        [*COLD, "check", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )
    return done.stdout


GT = '{key: sla, operator: Gt, value: "900"}'


def pod(name, toleration=GT):
    spec = f"{{containers: [{{name: c, image: i}}], tolerations: [{toleration}]}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n"
