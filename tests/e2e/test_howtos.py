"""Every how-to can be done: each command of each page, as written, from the root of the repository.

A fence may say behind its language that its commands are not run here: `run-by: FILE` names what runs them, `not-run:
REASON` why nothing does. What a page shows as a file (its name in the first line) is there, and so are the reader's own
manifests. Commands that answer from files alone are run by tests/test_documented_commands.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.documented import ROOT, Shown, files, has_indented_commands, typed, weir_words
from tests.e2e.kubectl import newest_kubectl
from tests.e2e.shell import SERVES, Shell
from tests.e2e.test_every_command import FILES, name_contexts
from tests.e2e.test_tutorial import PAGES as RUN_AS_TUTORIALS
from tests.e2e.test_up import up
from tests.test_documented_commands import is_question

PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "howto").glob("*.md"))}
#: Pages whose commands bring their own cluster up or down.
OWN_CLUSTER = {"back-up-and-restore": "weir up --detach --nodes 2", "grant-access": "true"}


def here(page: Path) -> list[Shown]:
    """Return the commands of *page* that are run here."""
    return [one for one in typed(page) if not one.note and not is_question(one)]


RUN = [name for name, page in PAGES.items() if here(page) and f"howto/{name}" not in RUN_AS_TUTORIALS]


def test_every_command_of_a_page_is_found():
    assert len(RUN) > 15 and [name for name, page in PAGES.items() if has_indented_commands(page)] == []


@pytest.mark.parametrize("name", PAGES)
def test_what_is_not_run_here_says_what_runs_it_or_why_not(name):
    for note in {one.note for one in typed(PAGES[name]) if one.note}:
        kind, _, said = note.partition(": ")
        if kind == "run-by":
            assert (ROOT / said).is_file(), note
            assert f"{name}.md" in (ROOT / said).read_text(), f"{said} does not say that it runs {name}.md"
        else:
            assert kind == "not-run" and len(said) > 10, note


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster with what pages name: eight nodes with GPUs, a workload `web` in `shop`, and a snapshot of it all."""
    folder = tmp_path_factory.mktemp("cluster")
    with up(folder, "--nodes", "8", "--gpus", "2"):
        name_contexts(folder)
        shell = Shell(folder, KUBECONFIG=str(folder / "kubeconfig"))
        shell.write("deployment.yaml", FILES["deployment.yaml"])
        shell.must("weir node add --name my-node && kubectl create namespace shop")
        shell.must("kubectl apply -n shop -f deployment.yaml && kubectl create secret generic s -n shop")
        shell.must('kubectl run web -n shop --image web:1 --overrides \'{"spec": {"nodeName": "node-0"}}\'')
        shell.must("kubectl rollout status -n shop deploy/web --timeout 60s && weir snapshot")
        yield folder


@pytest.mark.parametrize("name", RUN)
def test_every_command_of_a_howto_runs(name, request, tmp_path):
    kubectl = newest_kubectl()
    with Shell(tmp_path) as shell:
        shell.look_like_checkout()
        for file, text in (*FILES.items(), *files(PAGES[name])):
            shell.write(file, text)
        shell.program("helm", "cat manifests/app.yaml")
        # another cluster may run on this machine, and a test has nobody who says yes
        weir = (tmp_path / "bin" / "weir").read_text().splitlines()[1].removeprefix("exec ")
        shell.program("weir", f'case $1 in up|apiserver) set -- "$@" --secure-port 0;; esac\nexec {weir}')
        if name in OWN_CLUSTER:
            shell.environment["KUBECONFIG"] = ".weir/kubeconfig"
            shell.must(OWN_CLUSTER[name])
        else:
            folder = request.getfixturevalue("cluster")
            shell.environment["KUBECONFIG"] = str(folder / "kubeconfig")
            shutil.copy(folder / "snapshot.json.gz", tmp_path)
        try:
            for one in here(PAGES[name]):
                if lacking := kubectl.lacks(one.command):
                    pytest.skip(f"{lacking}: the rest of {name} is left out")
                assert wrong(shell, one) == ""
        finally:
            if (tmp_path / ".weir").is_dir():
                shell.run("weir down")


def wrong(shell: Shell, one: Shown) -> str:
    """Run a command of a page; return what is wrong with what it did, or ""."""
    words = next(weir_words(one.command), [""])
    serves = words[0] in SERVES and not {"-o", "--detach"} & set(words)
    if serves and one.command.startswith("weir ") and not one.command.endswith("&"):
        code, printed = shell.interrupt(one.command, SERVES[words[0]])
        return "" if code in (0, 130) and "Traceback" not in printed else f"{one.command}: {code}\n{printed}"
    if problem := shell.do(one):
        if "asks before it acts" not in problem:
            return problem
        return shell.do(Shown(one.page, f"{one.command} --yes", one.output))
    return ""
