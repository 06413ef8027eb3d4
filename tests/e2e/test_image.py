"""What the Containerfile describes runs as its user, without rights, on a read-only root with nothing else in it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.contract.etcd_server import free_port
from tests.e2e.server import running_server
from tests.image import Image, build, last_stage, why_not
from weir.client.http import connect
from weir.client.kubeconfig import SERVICE_ACCOUNT, load
from weir.install.manifests import HOOK_PORT, METRICS_PORT, Installation, foundation, workload
from weir.lowering.names import NAMESPACE, OPERATOR
from weir.objects.kinds import by_kind

PATIENCE_SECONDS, STOP_SECONDS = 90, 30
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
  tolerations: [{key: a, operator: Exists, value: b}]
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Image:
    if reason := why_not():
        pytest.skip(reason)
    return build(tmp_path_factory.mktemp("image") / "root")


def run(image: Image, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        image.command(arguments),
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@contextmanager
def running(folder: Path, command: list[str]) -> Iterator[Path]:
    """Give the log of a process that runs meanwhile and ends when it is told to."""
    log = folder / "container.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield log
            assert process.poll() is None, log.read_text()[-3000:]
        finally:
            for first in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(
                    int(first), signal.SIGTERM
                )  # the first process of the container, as its runtime would
            try:
                process.wait(STOP_SECONDS)
            finally:
                process.kill()  # and with it all that is left in its namespace


def wait_for(text: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)


def test_the_entry_point_answers_and_reads_what_is_piped_to_it(image):
    said = run(image, "--version")
    assert said.returncode == 0 and said.stdout.startswith("weir "), said.stderr
    found = run(image, "lint", "-", given=MANIFEST)
    assert found.returncode == 1 and "a=b" not in found.stderr and "tolerations" in found.stdout, found.stderr


def test_the_user_has_no_rights_and_can_write_to_its_volumes_only(image):
    program = (
        "import os, json\n"
        "def writable(folder):\n"
        "    try: open(folder + '/x', 'w').close()\n"
        "    except OSError as error: return error.strerror\n"
        "    return 'written'\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "status = dict(line.split(':\\t') for line in lines if ':\\t' in line)\n"
        "print(json.dumps({'ids': [os.getuid(), os.getgid(), *os.getgroups()], 'caps': int(status['CapEff'], 16),\n"
        "  'new': status['NoNewPrivs'], 'folders': {f: writable(f) for f in ('/', '/opt/weir', '/tmp', '/data')}}))\n"
    )
    answer = subprocess.run(
        image.command(["-c", program], program=["/opt/weir/bin/python"]),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    found = json.loads(answer.stdout or answer.stderr)
    assert found["ids"][0] > 0 and set(found["ids"]) == {found["ids"][0]}
    assert found["caps"] == 0 and found["new"] == "1"
    assert found["folders"].pop("/data") == "written"
    assert set(found["folders"].values()) == {"Read-only file system"}


def test_the_command_of_the_image_serves_a_cluster(image, tmp_path):
    (words,) = [json.loads(rest) for word, rest in last_stage() if word == "CMD"]
    port = free_port()
    with running(tmp_path, image.command([*words, "--secure-port", str(port)])) as log:
        wait_for("weir is up at", log)
        assert "BEGIN CERTIFICATE" in ssl.get_server_certificate(("127.0.0.1", port), timeout=30)


async def _installed(kubeconfig: Path) -> str:
    """Make what the installation consists of before the operator; return a token of its account."""
    client = connect(kubeconfig)
    for document in foundation(Installation(image="i")):
        kind = by_kind(document["apiVersion"], document["kind"])
        await client.create(kind, document, document["metadata"].get("namespace", ""))
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{OPERATOR}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = json.loads(await client.call("POST", path, body=request))
    await client.close()
    return answer["status"]["token"]


def test_the_operator_runs_in_it_as_its_deployment_says(image, tmp_path):
    """With the arguments, the volumes and the account of the Deployment, on an API server that checks its rights."""
    (deployment,) = [each for each in workload(Installation(image="i")) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    user = pod["securityContext"]["runAsUser"]
    assert image.user == f"{user}:{user}" and container["securityContext"]["readOnlyRootFilesystem"]
    ports = {str(HOOK_PORT): free_port(), str(METRICS_PORT): free_port()}
    arguments = [
        f"{name}={ports.get(value, value)}" if value else name
        for name, _, value in (each.partition("=") for each in container["args"])
    ]
    (tmp_path / "server").mkdir()
    with running_server(tmp_path / "server") as server:
        account = tmp_path / "account"
        account.mkdir(mode=0o755)
        access = load(server.kubeconfig)
        (account / "token").write_text(asyncio.run(_installed(server.kubeconfig)))
        (account / "ca.crt").write_bytes(access.authority)
        (account / "namespace").write_text(NAMESPACE)
        url = urlsplit(access.server)
        mounts = {each["mountPath"]: None for each in container["volumeMounts"]}
        environment = {"KUBERNETES_SERVICE_HOST": url.hostname, "KUBERNETES_SERVICE_PORT": str(url.port)}
        command = image.command(arguments, environment, {**mounts, str(SERVICE_ACCOUNT): account})
        with running(tmp_path, command) as log:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not ready(ports[str(METRICS_PORT)]):
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.1)
            assert "forbidden" not in log.read_text()


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
            return answer.status == 200
    except OSError:
        return False
