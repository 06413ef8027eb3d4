"""`weir apiserver --local-kubeconfig`: components of the machine come by its Unix socket, as the administrator."""

from __future__ import annotations

import asyncio
import stat
import subprocess

import pytest
import yaml

from tests.e2e.server import running_server
from tests.e2e.warm import WARM
from weir.client.http import connect
from weir.objects.kinds import by_kind

REVIEWS, PODS, NODES = (
    by_kind(*one)
    for one in (("authentication.k8s.io/v1", "SelfSubjectReview"), ("v1", "Pod"), ("v1", "Node"))
)
POD = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


async def placed(kubeconfig) -> tuple[str, str]:
    """Return who comes by *kubeconfig*, and the node that a scheduler gives a pod made by it."""
    client = connect(kubeconfig)
    me = await client.create(REVIEWS, {})
    await client.create(
        NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}}
    )
    await client.patch(NODES, "n1", {"spec": {"taints": None}})  # what admission gives a new node
    await client.create(PODS, POD)
    while not (pod := await client.get(PODS, "p", "default"))["spec"].get("nodeName"):
        await asyncio.sleep(0.05)
    await client.close()
    return me["status"]["userInfo"]["username"], pod["spec"]["nodeName"]


def test_a_scheduler_places_pods_over_the_socket_of_the_machine(tmp_path):
    tmp_path.chmod(0o700)
    local = tmp_path / "local.kubeconfig"
    off = ("--disable-admission-plugins", "ServiceAccount")
    with running_server(tmp_path, "--store", "memory", *off, "--local-kubeconfig", str(local)):
        address = f"unix://{tmp_path.resolve()}/local.sock"
        assert yaml.safe_load(local.read_text())["clusters"][0]["cluster"] == {"server": address}
        assert stat.S_IMODE((tmp_path / "local.sock").stat().st_mode) == 0o600
        scheduler = subprocess.Popen([*WARM, "scheduler", "--kubeconfig", str(local), "--no-leader-elect"])
        try:
            user, node = asyncio.run(asyncio.wait_for(placed(local), 60))
        finally:
            scheduler.terminate()
            scheduler.wait(60)
    assert (user, node) == ("kubernetes-admin", "n1")
    assert not (tmp_path / "local.sock").exists()


def test_a_socket_that_nobody_serves_is_named(tmp_path):
    cluster = {"name": "c", "cluster": {"server": f"unix://{tmp_path}/gone.sock"}}
    config = {
        "clusters": [cluster],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    answered = subprocess.run(
        [*WARM, "device", "list", "--kubeconfig", str(tmp_path / "config")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answered.returncode == 3
    assert f"{tmp_path}/gone.sock" in answered.stderr and answered.stderr.count("\n") == 1
    assert "no such file or directory" in answered.stderr


@pytest.mark.parametrize(
    "options, said",
    [
        (("--insecure-http", "--local-kubeconfig", "l"), "leave --insecure-http out"),
        (("--kubeconfig", "one", "--local-kubeconfig", "one"), "name another file than --kubeconfig"),
        (("--local-kubeconfig", "folder"), "folder cannot be a kubeconfig: is a directory"),
    ],
)
def test_what_cannot_be_such_a_file_is_said_in_one_line(tmp_path, options, said):
    (tmp_path / "folder").mkdir()
    *flags, name = options
    refused = subprocess.run(
        [*WARM, "apiserver", "--data-dir", str(tmp_path), "--store", "memory", "--secure-port", "0", *flags, name],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert refused.returncode == 2 and said in refused.stderr
    assert refused.stderr.count("\n") == 1
