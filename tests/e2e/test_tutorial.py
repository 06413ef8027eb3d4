"""Pages that need a running cluster, command by command, with the real kubectl."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.kubectl import newest_kubectl
from tests.e2e.test_up import up
from tests.e2e.warm import WARM

FOLDER = Path(__file__).parents[2] / "docs"
PAGES = ("tutorial/living-cluster", "tutorial/devices", "howto/find-stuck-workloads")
#: What the Python at the end of a tutorial must say.
SAID = {
    "tutorial/living-cluster": "node.kubernetes.io/unreachable",
    "tutorial/devices": "00:20:00.001000+00:00 1",
}


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (FOLDER / f"{page}.md").read_text(), re.DOTALL)


def commands(page):
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_prints_what_it_shows(page, tmp_path):
    kubectl = newest_kubectl()
    for text in blocks(page, "yaml"):
        name = text.partition("\n")[0].removeprefix("# ")
        if name.endswith(".yaml"):
            (tmp_path / name).write_text(text)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(kubectl.path)
    (programs / "weir").write_text(f'#!/bin/sh\nexec {shlex.join(WARM)} "$@"\n')
    (programs / "weir").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(tmp_path / "data" / "kubeconfig"),
    }
    (tmp_path / ".weir").symlink_to("data")
    with up(tmp_path, "--nodes", "0"):
        for command, shown in commands(page):
            if lacking := kubectl.lacks(command):
                pytest.skip(f"{lacking}: the rest of {page} is left out")
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
            )
            said = done.stdout + done.stderr
            pattern = shown.replace("[", "[[]").replace("…", "*")
            fails = shown.startswith("Error") or command.startswith("weir lint")
            assert (done.returncode != 0) == fails, (command, said)
            assert fnmatch.fnmatchcase(said.strip(), pattern.strip()), (command, said)


@pytest.mark.parametrize("page", SAID)
def test_the_python_of_the_tutorial_runs(page):
    (code,) = blocks(page, "python")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert SAID[page] in said
