"""`weir up` detached, on other addresses, on a folder that is not empty; `status` and `down` find it again."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys

import pytest

from tests.e2e.test_up import until, up
from tests.e2e.warm import WARM
from weir.client.http import trusting


def weir(*words, cwd=None, **environment):
    """Run a command of weir to its end; return its exit code, what it printed and what it said."""
    done = subprocess.run(
        [*WARM, *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "KUBECONFIG": "", **environment},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def detached(tmp_path):
    """A detached cluster in a folder of its own; it is stopped in any case."""
    data = tmp_path / "data"
    code, said, _ = weir("up", "--detach", "--data-dir", str(data), "--secure-port", "0", "--nodes", "1")
    assert code == 0 and said.splitlines()[-1] == f"export KUBECONFIG={data / 'kubeconfig'}"
    assert "weir down stops it" in said
    yield data
    weir("down", "--data-dir", str(data))


def test_a_detached_cluster_is_found_by_kubeconfig_and_purged(detached, tmp_path):
    kubeconfig = str(detached / "kubeconfig")
    code, text, _ = weir("status", "-o", "json", cwd=tmp_path, KUBECONFIG=kubeconfig)
    found = json.loads(text)
    assert (code, found["running"], found["nodes"]["total"], found["kubeconfig"]) == (0, True, 1, kubeconfig)
    asked = weir("down", "--purge", cwd=tmp_path, KUBECONFIG=kubeconfig)
    assert asked[0] == 2 and "add --yes" in asked[2] and (detached / "store.db").exists()
    (detached / "mine.txt").write_text("not weir's")
    code, said, _ = weir("down", "--purge", "--yes", cwd=tmp_path, KUBECONFIG=kubeconfig)
    assert code == 0 and "removed the state" in said
    assert [path.name for path in detached.iterdir()] == ["mine.txt"]
    code, text, _ = weir("status", "-o", "json", cwd=tmp_path, KUBECONFIG=kubeconfig)
    assert (code, json.loads(text)["running"]) == (1, False)


def test_what_keeps_a_detached_cluster_from_starting_is_said_in_one_line(detached, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, said = weir("up", "-d", "--data-dir", str(tmp_path / "other"), "--secure-port", port)
    assert (code, said) == (1, f"weir: port {port} is taken: --secure-port 0 picks a free one\n")
    code, _, said = weir("up", "-d", "--data-dir", str(detached), "--secure-port", "0")
    assert code == 1 and said.startswith(f"weir: {detached} is in use by process ")
    code, _, said = weir("up", "--data-dir", str(tmp_path / "third"), "--bind-address", "192.0.2.1")
    assert code == 1 and said.startswith("weir: cannot listen on 192.0.2.1:6443: give --bind-address")


def test_other_machines_reach_it_by_the_names_it_was_given(tmp_path):
    with up(tmp_path, "--nodes", "0", "--bind-address", "0.0.0.0", "--hostname", "weir.example"):
        port = int((tmp_path / "up.log").read_text().partition("https://127.0.0.1:")[2].partition("\n")[0])
        authority = (tmp_path / "data" / "pki" / "ca.crt").read_bytes()
        with (
            socket.create_connection((socket.gethostbyname(socket.gethostname()), port)) as plain,
            trusting(authority).wrap_socket(plain, server_hostname="weir.example") as secure,
        ):
            assert ("DNS", "weir.example") in secure.getpeercert()["subjectAltName"]
        with socket.create_connection(("127.0.0.1", port)) as plain, pytest.raises(ssl.SSLError):
            trusting(authority).wrap_socket(plain, server_hostname="other.example")


def test_options_without_effect_on_a_folder_in_use_before_are_named(tmp_path):
    with up(tmp_path, "--nodes", "3"):
        pass
    with up(tmp_path, "--nodes", "2", "--gpus", "2"):
        said = (tmp_path / "up.log").read_text()
    assert "--nodes 2 has no effect: 3 nodes are kept from before" in said
    assert "--gpus 2 does not change the 3 nodes kept from before; no node was added" in said
    with up(tmp_path, "--nodes", "1", "--purge", "--yes"):
        assert "nodes: 1 simulated\n" in (tmp_path / "up.log").read_text()


def test_ctrl_c_stops_a_cluster_that_is_still_starting(tmp_path):
    starting = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "weir",
            "up",
            "-d",
            "--data-dir",
            str(tmp_path / "data"),
            "--secure-port",
            "0",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until(lambda: (tmp_path / "data" / "up.log").exists() or starting.poll() is not None)
    starting.send_signal(signal.SIGINT)
    said, _ = starting.communicate(timeout=60)
    status, _, _ = weir("status", "--data-dir", str(tmp_path / "data"))
    if starting.returncode:  # else it was up before the signal came, and was left running
        assert (starting.returncode, status) == (130, 1), said
    assert "Traceback" not in said
    weir("down", "--data-dir", str(tmp_path / "data"))


#: `weir` in a process to which Ctrl-C comes while the interpreter runs its own hooks of the first fork.
INTERRUPTED_AT_THE_FORK = """
import os, signal, sys

def interrupt():
    if sent: return
    sent.append(True)
    os.kill(os.getpid(), signal.SIGINT)

sent = []
os.register_at_fork(after_in_parent=interrupt)
from weir.cli.main import main
main()
"""


@pytest.mark.parametrize("detach", [["--detach"], []])
def test_ctrl_c_amid_a_fork_is_not_lost(detach, tmp_path):
    data = str(tmp_path / "data")
    words = ["up", *detach, "--data-dir", data, "--secure-port", "0"]
    starting = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_THE_FORK, *words], capture_output=True, text=True, timeout=60
    )
    assert starting.returncode == 130
    assert "Traceback" not in starting.stderr
    assert weir("status", "--data-dir", data)[0] == 1
