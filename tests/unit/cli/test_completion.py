"""`weir completion`: the scripts shells read, and the names they are given."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from tests.unit.cli.test_device_drain import Lent
from weir.cli.main import run, weir
from weir.exit_codes import FINE, USAGE
from weir.simulation.cluster import Cluster


def complete(*words):
    *args, incomplete = words
    asked = ShellComplete(weir, {}, "weir", "_WEIR_COMPLETE").get_completions(list(args), incomplete)
    return {item.value for item in asked}


@pytest.fixture
def completing(monkeypatch):
    monkeypatch.setenv("_WEIR_COMPLETE", "bash_complete")


@pytest.fixture
def cluster(monkeypatch, completing):
    with Cluster() as cluster:
        cluster.add_nodes(2, name="spot", devices=1)
        pod = {"containers": [{"name": "c", "image": "i"}]}
        cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": pod})
        monkeypatch.setattr("weir.client.http.connect", lambda *_, **__: Lent(cluster))
        monkeypatch.setattr("asyncio.run", cluster._do)
        yield cluster


@pytest.mark.parametrize(
    "words, names",
    [
        (["node", "fail", ""], {"spot-0", "spot-1"}),
        (["node", "remove", "spot-0", "spot-1"], {"spot-1"}),
        (["explain", "w"], {"web"}),
        (["explain", "--namespace", "kube-sy"], {"kube-system"}),
        (["device", "drain", "gpu.example.com/spot-1"], {"gpu.example.com/spot-1/gpu-0"}),
        (["device", "degrade", "spot-0"], {"spot-0/gpu-0"}),
        (["device", "list", "--node", "spot-1"], {"spot-1"}),
        (["what-if", "taint", "spot-0"], {"spot-0"}),
        (["lint", "--context", ""], {"test"}),
        (["demo", "kep-5471-story-1"], {"kep-5471-story-1-spot-nodes"}),
        (["comp"], {"completion"}),
    ],
)
def test_names_are_those_there_are(cluster, words, names):
    assert complete(*words) == names


def test_a_cluster_out_of_reach_completes_nothing(completing):
    assert complete("node", "fail", "") == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(capsys, shell):
    assert run(["completion", shell]) == FINE
    assert "_WEIR_COMPLETE" in capsys.readouterr().out


def test_bash_accepts_its_script(capsys):
    run(["completion", "bash"])
    done = subprocess.run(["bash", "-n"], input=capsys.readouterr().out, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_shell_asks_the_command_itself():
    done = subprocess.run(
        [sys.executable, "-m", "weir"],
        env={
            "_WEIR_COMPLETE": "bash_complete",
            "COMP_WORDS": "weir de",
            "COMP_CWORD": "1",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["plain,demo", "plain,device"]


def test_another_shell_is_a_usage_error(capsys):
    assert run(["completion", "tcsh"]) == USAGE
